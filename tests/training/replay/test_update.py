"""Optimizer, target network and updates: how seeds are grouped and batches are packed changes nothing that is learned."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from refil.methods import vdn_attention
from refil.training.replay import update
from refil.training.replay.config import ReplayConfig
from refil.training.setup import Setup, TrainConfig
from refil.types import Method, Spec
from tests.gpu import pretend_backend
from tests.tiny_methods import random_batch
from tests.tiny_runs import Programs, small

SPEC = Spec(2, 2, 3, 2, 4)
METHOD = vdn_attention.build(vdn_attention.Config(recurrent=False, size=4, memory=1, heads=1, last_action=False), SPEC)


def setup_of(method: Method = METHOD, dtype=jnp.float32, **changes) -> Setup:
    return Setup(None, method, ReplayConfig(**changes), TrainConfig(), dtype)


@cache
def models():
    return tuple(jax.jit(METHOD.init)(key) for key in jax.random.split(jax.random.key(0)))


def gradient_of(setup: Setup, learner: update.LearnerState):
    return jax.jit(partial(update.gradient, setup))(learner, random_batch(SPEC, 0), jax.random.key(1))


def test_the_first_step_is_ten_times_the_learning_rate_for_a_large_gradient():
    optimizer = update.rmsprop(lr=5e-4, max_grad_norm=10.0)
    params, gradient = jnp.array([0.0]), jnp.array([3.0])
    change, _ = optimizer.update(gradient, optimizer.init(params))
    np.testing.assert_allclose(change, -5e-4 * 3 / (np.sqrt(0.01) * 3 + 1e-5), rtol=1e-6)


def test_the_small_constant_is_added_outside_the_square_root():
    optimizer = update.rmsprop(lr=1.0, max_grad_norm=10.0)
    change, _ = optimizer.update(jnp.array([1e-6]), optimizer.init(jnp.array([0.0])))
    np.testing.assert_allclose(change, -1e-6 / (0.1 * 1e-6 + 1e-5), rtol=1e-4)


@pytest.mark.parametrize(("gradient", "expected"), [([3.0, 4.0], [3.0, 4.0]), ([30.0, 40.0], [6.0, 8.0])])
def test_gradients_are_clipped_to_a_joint_norm(gradient, expected):
    tree = {"a": jnp.array(gradient[:1]), "b": jnp.array(gradient[1:])}
    clipped, _ = update.clip_by_norm(10.0).update(tree, optax.EmptyState())
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], expected, rtol=1e-5)


def test_the_target_network_is_copied_every_target_every_episodes():
    model, target = models()
    setup = setup_of(target_every=200)
    copy = jax.jit(partial(update.update_target, setup))
    learner = update.init_learner(setup, model, target)
    jax.tree.map(np.testing.assert_array_equal, copy(learner, jnp.int32(199)).target, target)
    copied = copy(learner, jnp.int32(200))
    jax.tree.map(np.testing.assert_array_equal, copied.target, model)
    assert copied.target_updated_at == 200
    assert copy(copied, jnp.int32(399)).target_updated_at == 200
    assert copy(copied, jnp.int32(400)).target_updated_at == 400


@pytest.mark.parametrize("own_optimizer", [False, True])
def test_a_method_may_average_its_target_network(own_optimizer):
    """Polyak averaging with 0.25: after two updates the target is 7/16 model and 9/16 old target."""

    def polyak(target, model, is_due):
        assert jax.tree.structure(target) == jax.tree.structure(model) == jax.tree.structure(METHOD.init(jax.random.key(0)))
        return jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, target, model)

    optimizer = (lambda algorithm: optax.sgd(algorithm.lr)) if own_optimizer else None
    setup, (model, target) = setup_of(replace(METHOD, target_update=polyak, optimizer=optimizer)), models()
    learner = update.init_learner(setup, model, target)
    for episodes in range(2):
        learner = update.update_target(setup, learner, jnp.int32(episodes))
    expected = jax.tree.map(lambda new, old: (7 * new + 9 * old) / 16, model, target)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), learner.target, expected)
    jax.tree.map(np.testing.assert_array_equal, learner.model, model)


def test_a_method_may_bring_an_optimizer_that_treats_layers_differently():
    def optimizer(algorithm: ReplayConfig) -> optax.GradientTransformation:
        def labels(model):
            return jax.tree_util.tree_map_with_path(lambda path, leaf: "head" if "head" in str(path) else "rest", model)

        return optax.multi_transform({"head": optax.sgd(algorithm.lr), "rest": optax.set_to_zero()}, labels)

    setup, (model, target) = setup_of(replace(METHOD, optimizer=optimizer), lr=0.1), models()
    learner = update.init_learner(setup, model, target)
    assert jax.tree.structure(learner.parameters) == jax.tree.structure(model)
    gradient, metrics = gradient_of(setup, learner)
    after = update.apply_gradient(setup, learner, gradient).model
    expected = model.utility.head.weight - 0.1 * gradient.utility.head.weight
    np.testing.assert_allclose(after.utility.head.weight, expected, rtol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after.utility.encoder, model.utility.encoder)
    assert metrics["gradient_norm"] == pytest.approx(float(optax.tree.norm(gradient)))


def test_a_method_with_its_own_optimizer_trains():
    setup = small("vdn_attention", seeds=2, steps=60).build()
    setup = setup._replace(method=replace(setup.method, optimizer=lambda algorithm: optax.adam(algorithm.lr)))
    programs = Programs(setup)
    start, (end, _) = programs.init(), programs.run()
    assert end.learner.layout is None
    assert jax.tree.structure(end.learner.model) == jax.tree.structure(start.learner.model)
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), start.learner.model, end.learner.model)
    assert all(jax.tree.leaves(moved))


def test_a_vector_of_parameters_holds_its_model():
    (model, target), setup = models(), setup_of()
    learner = update.init_learner(setup, model, target)
    assert learner.parameters.ndim == 1
    jax.tree.map(np.testing.assert_array_equal, (learner.model, learner.target), (model, target))
    both = jax.vmap(learner.layout.ravel)(jax.tree.map(lambda *leaves: jnp.stack(leaves), model, target))
    jax.tree.map(lambda leaf, one: np.testing.assert_array_equal(leaf[0], one), learner.layout.unravel(both), model)


def test_parameters_and_metrics_stay_float32_in_bf16():
    setup = setup_of(dtype=jnp.bfloat16)
    before = update.init_learner(setup, *models())
    gradient, metrics = gradient_of(setup, before)
    after = update.apply_gradient(setup, before, gradient)
    assert after.parameters.dtype == jnp.float32
    assert all(value.dtype == jnp.float32 for value in metrics.values())
    assert (after.parameters != before.parameters).any()


def test_metrics_may_be_integers():
    def loss(*inputs):
        value, metrics = METHOD.loss(*inputs)
        return value, metrics | {"agents": jnp.int32(2)}

    setup = setup_of(replace(METHOD, loss=loss))
    learner = update.init_learner(setup, *models())
    metrics = gradient_of(setup, learner)[1]
    assert metrics["agents"] == 2
    assert metrics["agents"].dtype == jnp.float32


def test_groups_of_seeds_are_equal_and_not_too_large(monkeypatch):
    assert [update._group_size(seeds) for seeds in (1, 5, 12)] == [1, 1, 1]
    pretend_backend(monkeypatch, "gpu")
    assert [update._group_size(seeds) for seeds in (1, 5, 7, 12, 24, 11)] == [1, 5, 7, 6, 8, 1]
