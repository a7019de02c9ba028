"""Rollouts in an environment that counts its steps, and the choice of actions."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout
from refil.envs import group_matching
from refil.nn.mixers import Vdn
from refil.nn.utilities import team_policy, team_state, unroll
from refil.plugins import load
from refil.training.replay import buffer
from refil.types import Model
from tests import tiny_envs
from tests.tiny_methods import METHODS, RECURRENT, marked_slow, small

TASKS = jnp.array([[0, 1], [2, 3]])
KEYS = jax.random.split(jax.random.key(1))


@pytest.fixture(scope="module")
def env():
    return tiny_envs.build(tiny_envs.Config(horizon=4))


@pytest.fixture(scope="module")
def models(env):
    method = load("refil.methods", "refil")
    build = method.build(method.Config(size=8, heads=2, memory=4, mixing=4), env.spec)
    return jax.vmap(build.init)(jax.random.split(jax.random.key(0)))


def play(env, models, epsilon, tasks, keys):
    """Play one episode of each task with an epsilon-greedy team."""
    return rollout.rollout(env, team_policy(models, epsilon), team_state(models, tasks.shape[1], env.spec.agents), tasks, keys)


@pytest.fixture(scope="module")
def played(env, models):
    return jax.jit(partial(play, env))(models, jnp.ones(2), TASKS, KEYS)


def test_tasks_may_be_numpy_arrays(env, models, played):
    same = replace(env, tasks=np.asarray(env.tasks))
    again = jax.jit(partial(play, same))(models, jnp.ones(2), TASKS, KEYS)
    jax.tree.map(np.testing.assert_array_equal, again, played)


def test_every_episode_has_the_length_of_its_task_or_of_the_horizon(played):
    np.testing.assert_array_equal(played.valid.sum(axis=-1), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(played.task, TASKS)


def test_a_trajectory_holds_states_rewards_and_ends_and_zeros_after_the_end(played):
    np.testing.assert_array_equal(played.rewards[1], [[1, 2, 3, 0], [1, 2, 3, 4]])
    np.testing.assert_array_equal(played.terminated[1], [[0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(played.states.time[1], [[0, 1, 2, 3, 0], [0, 1, 2, 3, 4]])


def test_only_available_actions_are_taken(played):
    assert (np.asarray(played.actions)[:, :, 1::2][np.asarray(played.valid)[:, :, 1::2]] == 1).all()


def test_an_episode_does_not_depend_on_the_others_in_its_batch(env, models, played):
    """This holds even where the batch continues after its end."""
    alone = play(env, jax.tree.map(lambda leaf: leaf[1:], models), jnp.ones(1), TASKS[1:], KEYS[1:])
    jax.tree.map(lambda ours, theirs: np.testing.assert_array_equal(ours[0], theirs[1]), alone, played)
    keys = jax.random.wrap_key_data(played.key)[:1, :1]  # the shortest episode of the batch
    first = rollout.reset_envs(env, TASKS[:1, :1], keys)
    one = jax.tree.map(lambda leaf: leaf[:1], models)
    policy = team_policy(one, jnp.ones(1))
    shortest = rollout.run_episodes(env, policy, team_state(one, 1, 2), first, TASKS[:1, :1], keys)
    jax.tree.map(lambda ours, theirs: np.testing.assert_array_equal(ours[0, 0], theirs[0, 0]), shortest, played)


def test_a_rebuilt_batch_shows_what_was_observed_and_the_last_actions(env, played):
    batch = buffer.rebuild_batch(env, jax.tree.map(lambda leaf: leaf[1], played))
    obs = batch.observations
    np.testing.assert_array_equal(obs.entities[1, :, 0, 0], [0, 1, 2, 3, 4])
    last = np.asarray(obs.last_action)
    assert (last[:, 0] == -1).all()
    np.testing.assert_array_equal(last[:, 1:], batch.actions)
    np.testing.assert_array_equal(obs.is_first, [[True, False, False, False, False]] * 2)
    np.testing.assert_array_equal(obs.alive, obs.present)  # the environment omits both
    np.testing.assert_array_equal(obs.group, jnp.zeros((2, 5, 3)))


def test_step_keys_are_those_that_a_rollout_uses(env):
    seen = []

    def policy(state, obs, keys):
        jax.debug.callback(lambda data: seen.append(np.asarray(data)), jax.random.key_data(keys), ordered=True)
        return state, jnp.ones(obs.available.shape[:-1], jnp.int32)

    played = rollout.rollout(env, policy, (), jnp.array([[3]]), KEYS[:1])
    jax.effects_barrier()
    key = jax.random.wrap_key_data(played.key[0, 0])
    expected = [jax.random.key_data(rollout.step_keys(key, jnp.int32(time))[0]) for time in range(4)]
    np.testing.assert_array_equal(np.stack(seen)[:, 0, 0], np.stack(expected))


def test_a_random_policy_takes_only_available_actions_and_no_policy_takes_action_0(env):
    tasks = jnp.full((2, 50), 3)
    actions = np.asarray(jax.jit(partial(rollout.rollout, env, rollout.random_policy, ()))(tasks, KEYS).actions)
    assert (actions[:, :, 1::2] == 1).all()
    assert actions[:, :, ::2].mean() == pytest.approx(0.5, abs=0.1)
    assert (np.asarray(rollout.rollout(env, rollout.no_policy, (), tasks[:, :1], KEYS).actions) == 0).all()


def test_random_tasks_are_sampled_uniformly_and_differently_per_seed(env):
    tasks = np.asarray(rollout.rollout_random_tasks(env, rollout.no_policy, (), 400, KEYS).task)
    np.testing.assert_allclose(np.stack([np.bincount(row, minlength=4) for row in tasks]) / 400, 0.25, atol=0.08)
    assert (tasks[0] != tasks[1]).any()


def test_every_seed_purpose_and_count_has_its_own_key():
    seeds = jnp.arange(3)
    keys = [rollout.derive_keys(seeds, purpose, jnp.full(3, count)) for purpose in range(4) for count in range(3)]
    words = {tuple(word) for some in keys for word in jax.random.key_data(some).tolist()}
    assert len(words) == 36


def test_the_greedy_action_is_the_best_available_one():
    q = jnp.array([[3.0, 2.0, 1.0], [-5.0, -7.0, -6.0]])
    available = jnp.array([[False, True, True], [False, True, True]])
    np.testing.assert_array_equal(rollout.greedy(q, available), [1, 2])


def test_actions_are_greedy_with_epsilon_0_and_uniform_over_available_ones_with_epsilon_1():
    q = jnp.array([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0]])
    available = jnp.array([[True, True, False], [True, True, True]])
    choose = jax.vmap(lambda epsilon, key: rollout.epsilon_greedy(q, available, epsilon, key), in_axes=(None, 0))
    keys = jax.random.split(jax.random.key(0), 6000)
    np.testing.assert_array_equal(choose(jnp.asarray(0.0), keys), np.broadcast_to([1, 0], (6000, 2)))
    random = np.asarray(choose(jnp.asarray(1.0), keys))
    np.testing.assert_allclose(np.bincount(random[:, 0], minlength=3) / 6000, [0.5, 0.5, 0], atol=0.03)
    np.testing.assert_allclose(np.bincount(random[:, 1], minlength=3) / 6000, [1 / 3, 1 / 3, 1 / 3], atol=0.03)


def test_every_agent_explores_independently():
    q, available = jnp.array([[1.0, 0.0]] * 2), jnp.ones((2, 2), bool)
    choose = jax.vmap(lambda key: rollout.epsilon_greedy(q, available, jnp.asarray(0.5), key))
    actions = np.asarray(choose(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(actions.mean(axis=0), [0.25, 0.25], atol=0.03)
    np.testing.assert_allclose((actions[:, 0] & actions[:, 1]).mean(), 0.0625, atol=0.02)


MATCHING = group_matching.build(group_matching.Config(agents=4, cells=3, horizon=8))
play_matching = jax.jit(partial(play, MATCHING))
rebuild = jax.jit(jax.vmap(partial(buffer.rebuild_batch, MATCHING)))
unroll_all = jax.jit(jax.vmap(partial(unroll, key=jax.random.key(0))))


@pytest.mark.parametrize("name", marked_slow([(name,) for name in METHODS], fast=("refil", "roma")))
def test_learning_sees_what_the_team_acted_on(name):
    """The greedy actions of the unrolled network are the actions that were played without exploration."""
    method = small(name, RECURRENT, MATCHING.spec)
    utilities = jax.jit(jax.vmap(lambda key: method.init(key).utility))(jax.random.split(jax.random.key(2), 4))
    utilities = jax.tree.map(lambda leaf: 8 * leaf, utilities)  # a new network prefers the same action whatever it sees
    # The mixer does not act: with the same one for all, methods with the same kind of utility share a program.
    models, keys = Model(utilities, Vdn()), jax.random.split(jax.random.key(3), 4)
    played = play_matching(models, jnp.zeros(4), jnp.zeros((4, 6), jnp.int32), keys)
    q = unroll_all(utilities, rebuild(played))
    best, valid = np.asarray(q.argmax(axis=-1))[:, :, :-1], np.asarray(played.valid)
    assert any(len(np.unique(best[seed][valid[seed]])) > 1 for seed in range(4))
    np.testing.assert_array_equal(best[valid], np.asarray(played.actions)[valid])
