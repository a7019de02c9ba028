"""Playing and seeing again, in a world that counts its steps."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout
from refil.envs import group_matching
from refil.nn.mixers import Vdn
from refil.plugins import load
from refil.training.config import METHODS
from refil.types import Model
from tests import tiny_envs
from tests.test_methods import KINDS, every_method, small

TASKS = jnp.array([[0, 1], [2, 3]])


@pytest.fixture(scope="module")
def env():
    return tiny_envs.build(tiny_envs.Config(horizon=4))


@pytest.fixture(scope="module")
def models(env):
    method = load(METHODS, "refil")
    build = method.build(method.Config(size=8, heads=2, memory=4, mixing=4), env.spec)
    return jax.vmap(build.init)(jax.random.split(jax.random.key(0)))


@pytest.fixture(scope="module")
def played(env, models):
    return jax.jit(partial(rollout.collect, env))(models, TASKS, jnp.ones(2), jax.random.split(jax.random.key(1)))


def test_tasks_may_be_numpys(env, models, played):
    same = replace(env, tasks=np.asarray(env.tasks))
    again = jax.jit(partial(rollout.collect, same))(models, TASKS, jnp.ones(2), jax.random.split(jax.random.key(1)))
    jax.tree.map(np.testing.assert_array_equal, again, played)


def test_every_episode_has_the_length_of_its_task_or_of_the_horizon(played):
    np.testing.assert_array_equal(played.valid.sum(axis=-1), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(played.task, TASKS)


def test_rows_hold_what_was_seen_done_and_paid(played):
    np.testing.assert_array_equal(jnp.where(played.valid, played.rewards, 0)[1], [[1, 2, 3, 0], [1, 2, 3, 4]])
    np.testing.assert_array_equal((played.terminated & played.valid)[1], [[0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(played.states.time[1], [[0, 1, 2, 3, 0], [0, 1, 2, 3, 4]])


def test_only_available_actions_are_taken(played):
    assert (np.asarray(played.actions)[:, :, 1::2][np.asarray(played.valid)[:, :, 1::2]] == 1).all()


def test_an_episode_alone_is_the_episode_in_a_batch(env, models, played):
    """Also where the batch goes on after its end."""
    one = jax.tree.map(lambda leaf: leaf[1:], models)
    keys = jax.random.split(jax.random.key(1))[1:]
    alone = rollout.collect(env, one, TASKS[1:, :], jnp.ones(1), keys)
    jax.tree.map(lambda ours, theirs: np.testing.assert_array_equal(ours[0], theirs[1]), alone, played)


def test_recalled_episodes_show_what_was_seen_with_last_actions(env, played):
    batch = jax.tree.map(lambda leaf: leaf[1], played)
    episodes = rollout.recall(env, batch)
    np.testing.assert_array_equal(episodes.observations.entities[1, :, 0, 0], [0, 1, 2, 3, 4])
    last = np.asarray(episodes.observations.last_action)
    assert (last[:, 0] == -1).all()
    np.testing.assert_array_equal(last[:, 1:], episodes.actions)


GROUPS = group_matching.build(group_matching.Config(agents=4, cells=3, horizon=8))
greedily = jax.jit(partial(rollout.collect, GROUPS))
recalled = jax.jit(jax.vmap(partial(rollout.recall, GROUPS)))
unrolled = jax.jit(jax.vmap(lambda utility, obs: utility.unroll(obs, obs.visible[None], jax.random.key(0))[0][0]))


@every_method
def test_what_is_recalled_is_what_was_acted_on(name):
    """Greedy actions of the unrolled network are the actions that were played without exploration."""
    method = small(name, KINDS[1], GROUPS.spec)
    utilities = jax.jit(jax.vmap(lambda key: method.init(key).utility))(jax.random.split(jax.random.key(2), 4))
    utilities = jax.tree.map(lambda leaf: 8 * leaf, utilities)  # a fresh one likes one action best whatever it sees
    # Nobody acts on a mixer: with the same one for all, methods whose utilities are alike share a program.
    models, keys = Model(utilities, Vdn()), jax.random.split(jax.random.key(3), 4)
    played = greedily(models, jnp.zeros((4, 6), jnp.int32), jnp.zeros(4), keys)
    q = unrolled(utilities, recalled(played).observations)
    best, valid = np.asarray(q.argmax(axis=-1))[:, :, :-1], np.asarray(played.valid)
    assert any(len(np.unique(best[seed][valid[seed]])) > 1 for seed in range(4))
    np.testing.assert_array_equal(best[valid], np.asarray(played.actions)[valid])
