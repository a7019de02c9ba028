"""Gradients of every method: finite, exact enough in bf16, and different from zero."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from refil.checks import methods
from refil.checks.batches import with_dead
from refil.training.replay import update
from refil.training.replay.config import ReplayConfig
from refil.training.setup import Setup, TrainConfig
from refil.types import Method, Observation, Spec
from refil.wrappers import MaskDead
from tests.golden_fixtures import RecordedEnv
from tests.tiny_methods import (
    CASES,
    METHODS,
    RECURRENT,
    TIME,
    built,
    every_case,
    every_method,
    jitted_loss,
    marked_slow,
    random_batch,
    small,
    subject,
    two_models,
)

only_refil = pytest.mark.parametrize("name", marked_slow([(name,) for name in METHODS], fast=("refil",)))


def in_bf16(method: Method, *networks_and_batch) -> tuple:
    """Return the networks and the batch as an update with precision bf16 sees them."""
    setup = Setup(None, method, ReplayConfig(), TrainConfig(), jnp.bfloat16)
    return update.cast(setup, *networks_and_batch)


@pytest.mark.slow
@only_refil
def test_bf16_changes_losses_and_gradients_by_a_few_percent(name):
    """Activations then have 8 bits; the loss itself is still float32."""
    method, spec = built(name, RECURRENT)
    inputs = (*two_models(method, 0), random_batch(spec, 1))
    exact, gradient = jitted_loss(method)(*inputs, jax.random.key(1))
    rounded, rounded_gradient = jitted_loss(method)(*in_bf16(method, *inputs), jax.random.key(1))
    assert rounded.dtype == jnp.float32
    assert rounded != exact
    np.testing.assert_allclose(rounded, exact, rtol=0.05)
    norms = [
        float(optax.tree.norm(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), each)))
        for each in (rounded_gradient, gradient)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.1)


@pytest.mark.slow
@only_refil
def test_a_repeated_batch_has_the_same_gradient_in_bf16(name):
    """Sums over rows are made in float32: in bf16 the gradient of many rows would be too small.

    The two are different programs, which round differently. Where that switches a ReLU on or off or changes the best action,
    single gradients differ by several percent (at most 8 % with four seeds of UPDeT), but their norms do not.
    """
    method, spec = built(name, RECURRENT)
    *models, batch = in_bf16(method, *two_models(method, 0), random_batch(spec, 1))
    many = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * 128), batch)  # the same episode_id, and so the same groups
    once, often = (jitted_loss(method)(*models, each, jax.random.key(1))[1] for each in (batch, many))
    for one, other in zip(*map(jax.tree.leaves, (once, often)), strict=True):
        one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
        assert np.linalg.norm(other) == pytest.approx(np.linalg.norm(one), rel=0.03)
        assert np.linalg.norm(other - one) <= 0.1 * np.linalg.norm(one)


@pytest.mark.parametrize(("name", "kind"), marked_slow(CASES, fast=("refil",)))
def test_gradients_are_finite_whatever_is_visible(name, kind):
    methods.gradients_are_finite(subject(name, kind), 1)


@every_case
def test_gradients_are_finite_where_the_dead_are_masked(name, kind):
    method, spec = built(name, kind)
    batch = random_batch(spec, 1)
    changed = without_dead(with_dead(batch.observations))
    assert_finite(*jitted_loss(method)(*two_models(method, 0), replace(batch, observations=changed), jax.random.key(0)))


def assert_finite(loss, gradient):
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def without_dead(obs: Observation) -> Observation:
    """Mask the dead as `train.mask_dead` does, timestep by timestep."""
    return jax.vmap(jax.vmap(MaskDead(RecordedEnv()).observe))(obs)


@only_refil
@pytest.mark.parametrize(
    "spec", [Spec(1, 1, 4, 5, TIME, target_actions=3), Spec(3, 3, 4, 5, TIME, target_actions=3)], ids=["one", "agents only"]
)
def test_gradients_are_finite_in_the_smallest_environments(name, spec):
    method = small(name, RECURRENT, spec)
    models = two_models(built(name, RECURRENT)[0], 0)  # parameters do not depend on the number of entities
    loss, gradient = jitted_loss(method)(*models, random_batch(spec, 1), jax.random.key(0))
    assert_finite(loss, gradient)
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(gradient))


@every_method
def test_an_update_moves_every_parameter_that_matters(name):
    method, spec = built(name, RECURRENT)
    setup, model = Setup(None, method, ReplayConfig(), TrainConfig()), two_models(method, 0)[0]
    learner = update.init_learner(setup, model, model)
    gradient = jitted_loss(method)(model, model, random_batch(spec, 2), jax.random.key(1))[1]
    after = update.apply_gradient(setup, learner, learner.layout.ravel(gradient)).model
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), model, after)
    still = {jax.tree_util.keystr(path) for path, moves in jax.tree_util.tree_leaves_with_path(moved) if not moves}
    # ROMA normalizes the distances of roles, so that a constant added to all of them has no effect.
    assert still <= ({".utility.dissimilarity.leave.bias"} if name == "roma" else set())
