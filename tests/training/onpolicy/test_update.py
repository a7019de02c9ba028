"""Updates from rollouts: targets, minibatches, and the averaged network."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning import td
from refil.training.onpolicy import loop, update
from refil.training.onpolicy.config import OnPolicyConfig
from refil.types import EpisodeBatch, Observation
from tests.tiny_streams import small

OBSERVATIONS = Observation(jnp.zeros((64, 33, 1, 1)), *(jnp.ones((64, 33, *shape), bool) for shape in [(1,), (1, 1), (1, 1)]))


def lambda_targets_by_loop(rewards, terminated, truncated, values, discount, trace) -> np.ndarray:
    """Return Q(lambda) targets; `values` has the timestep after the rollout, and a truncated step counts as its own value."""
    targets = np.zeros_like(rewards)
    for row in range(len(rewards)):
        later = values[row, -1]
        for t in reversed(range(rewards.shape[1])):
            if terminated[row, t]:
                later = rewards[row, t]
            elif truncated[row, t]:
                later = values[row, t]
            else:
                later = rewards[row, t] + discount * ((1 - trace) * values[row, t + 1] + trace * later)
            targets[row, t] = later
    return targets


@pytest.mark.parametrize("trace", [0.0, 0.65, 1.0])
def test_targets_equal_those_of_a_loop_with_ends_truncations_and_borders(trace):
    draw = np.random.default_rng(0)
    shape = (64, 32)
    rewards, values = draw.normal(size=shape), draw.normal(size=(64, 33))
    terminated = draw.random(shape) < 0.15
    truncated = (draw.random(shape) < 0.1) & ~terminated
    arrays = (jnp.asarray(leaf) for leaf in (rewards, terminated, ~truncated))
    batch = EpisodeBatch(OBSERVATIONS, jnp.zeros((64, 33), int), jnp.zeros((64, 32, 1), int), *arrays, num_episodes=1)
    ours = td.lambda_targets(batch, jnp.asarray(values[:, 1:]), 0.97, trace)
    theirs = lambda_targets_by_loop(rewards, terminated, truncated, values, 0.97, trace)
    np.testing.assert_allclose(np.asarray(ours)[~truncated], theirs[~truncated], atol=1e-4)


@pytest.fixture(scope="module")
def setup():
    return small().build()


@pytest.fixture(scope="module")
def one_seed(setup):
    """The learner and a rollout of one seed."""
    state = jax.jit(partial(loop.init, setup))()
    played = jax.jit(partial(loop.play, setup))(state)
    return jax.tree.map(lambda leaf: leaf[0], (state.learner, loop.batch_to_learn(state, played)))


def test_rows_of_a_batch_keep_their_memory(one_seed):
    batch = one_seed[1]
    part = update.take_rows(batch, jnp.array([5, 2]))
    np.testing.assert_array_equal(part.actions, np.asarray(batch.actions)[[5, 2]])
    np.testing.assert_array_equal(part.start, np.asarray(batch.start)[:, [5, 2]])


@pytest.mark.parametrize("targets", ["average", "frozen", "current"])
def test_a_repeated_rollout_is_learned(setup, one_seed, targets):
    setup = setup._replace(algorithm=replace(setup.algorithm, targets=targets, optimizer="adam", lr=0.03, td_lambda=1.0))
    learner, batch = one_seed
    learn = jax.jit(partial(update.learn, setup))
    errors = []  # relative to the variance of the targets, which move as the network learns
    for number in range(30):
        learner, metrics = learn(learner, batch, jnp.zeros(()), jax.random.key(number))
        errors.append(float(metrics["td_loss"] / metrics["target_variance"]))
    assert np.isfinite(errors).all()
    assert errors[-1] < 0.5 * errors[0]


def test_the_average_keeps_its_fraction(setup, one_seed):
    learner, batch = one_seed
    after, _ = jax.jit(partial(update.learn, setup))(learner, batch, jnp.zeros(()), jax.random.key(0))
    np.testing.assert_allclose(after.average, 0.9 * learner.average + 0.1 * after.parameters, rtol=1e-5, atol=1e-6)
    assert not np.allclose(after.parameters, learner.parameters)


def test_the_learning_rate_falls_linearly_to_zero_unless_it_is_constant():
    progress = jnp.array([0.0, 0.25, 1.0])
    np.testing.assert_allclose(update.learning_rate(OnPolicyConfig(lr=0.4), progress), [0.4, 0.3, 0.0], atol=1e-7)
    np.testing.assert_allclose(update.learning_rate(OnPolicyConfig(lr=0.4, lr_decay=False), progress), 0.4)


def test_at_the_end_of_training_nothing_changes(setup, one_seed):
    learner, batch = one_seed
    after, _ = jax.jit(partial(update.learn, setup))(learner, batch, jnp.ones(()), jax.random.key(0))
    np.testing.assert_array_equal(after.parameters, learner.parameters)


def test_all_seeds_are_mapped_in_order():
    for seeds in (1, 3):
        values = jnp.arange(seeds)
        np.testing.assert_array_equal(update.map_seeds(lambda value, other: value + other, values, 10 * values), 11 * values)
