"""The optimiser and the target's schedule."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from refil.methods import vdn_attention
from refil.training.replay import learner as learn
from refil.types import Model, Spec
from tests.test_methods import random_episodes


def test_the_first_step_is_ten_times_the_learning_rate_for_a_large_gradient():
    optimiser = learn.rmsprop(lr=5e-4, max_norm=10.0)
    params, gradient = jnp.array([0.0]), jnp.array([3.0])
    change, _ = optimiser.update(gradient, optimiser.init(params))
    np.testing.assert_allclose(change, -5e-4 * 3 / (np.sqrt(0.01) * 3 + 1e-5), rtol=1e-6)


def test_the_constant_stands_outside_the_square_root():
    optimiser = learn.rmsprop(lr=1.0, max_norm=10.0)
    change, _ = optimiser.update(jnp.array([1e-6]), optimiser.init(jnp.array([0.0])))
    np.testing.assert_allclose(change, -1e-6 / (0.1 * 1e-6 + 1e-5), rtol=1e-4)


@pytest.mark.parametrize(("gradient", "expected"), [([3.0, 4.0], [3.0, 4.0]), ([30.0, 40.0], [6.0, 8.0])])
def test_gradients_are_clipped_to_a_joint_norm(gradient, expected):
    clip = learn.clip(10.0)
    tree = {"a": jnp.array(gradient[:1]), "b": jnp.array(gradient[1:])}
    clipped, _ = clip.update(tree, optax.EmptyState())
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], expected, rtol=1e-5)


def model(seed: int) -> Model:
    options = vdn_attention.Config(recurrent=False, size=2, memory=1, heads=1, last_action=False)
    return vdn_attention.build(options, Spec(1, 1, 1, 2, 1)).init(jax.random.key(seed))


def test_the_target_is_copied_every_so_many_episodes():
    def same(one: Model, other: Model) -> bool:
        return all((a == b).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))

    copy = jax.jit(lambda learner, episodes: learn.copy_target(learner, episodes, every=200))
    learner = learn.learner(model(0), model(1), learn.rmsprop(1.0, 1.0))
    assert same(copy(learner, jnp.int32(199)).target, model(1))
    copied = copy(learner, jnp.int32(200))
    assert same(copied.target, model(0))
    assert copied.target_updated_at == 200
    assert copy(copied, jnp.int32(399)).target_updated_at == 200
    assert copy(copied, jnp.int32(400)).target_updated_at == 400


def test_a_row_of_parameters_is_its_network():
    network = model(0)
    learner = learn.learner(network, model(1), learn.rmsprop(1.0, 1.0))
    jax.tree.map(np.testing.assert_array_equal, learner.model, network)
    both = jax.vmap(learner.layout.row)(jax.tree.map(lambda *leaves: jnp.stack(leaves), network, model(1)))
    jax.tree.map(lambda leaf, one: np.testing.assert_array_equal(leaf[0], one), learner.layout.network(both), network)


SMALL = Spec(2, 2, 3, 2, 4)


def small_method():
    """One that has few numbers to learn."""
    return vdn_attention.build(vdn_attention.Config(recurrent=False, size=4, memory=1, heads=1, last_action=False), SMALL)


def test_what_is_learned_stays_float32_whatever_networks_work_in():
    method, optimiser = small_method(), learn.rmsprop(5e-4, 10.0)
    before = learn.begin(method, optimiser, jax.random.key(0))
    after, metrics = learn.update(method, optimiser, before, random_episodes(SMALL, 0), jax.random.key(1), jnp.bfloat16)
    assert after.parameters.dtype == jnp.float32
    assert all(value.dtype == jnp.float32 for value in metrics.values())
    assert (after.parameters != before.parameters).any()


def test_a_method_may_count_things():
    method = small_method()

    def loss(*given):
        value, said = method.loss(*given)
        return value, said | {"agents": jnp.int32(2)}

    counting, learner = replace(method, loss=loss), learn.begin(method, learn.rmsprop(5e-4, 10.0), jax.random.key(0))
    said = learn.gradient(counting, learner, random_episodes(SMALL, 0), jax.random.key(1))[1]
    assert said["agents"] == 2
    assert said["agents"].dtype == jnp.float32
