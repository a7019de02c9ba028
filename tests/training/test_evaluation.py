"""Scores of recorded episodes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from refil import rollout
from refil.plugins import load
from refil.training import evaluation
from refil.training.config import METHODS
from tests import tiny_envs


def test_scores_are_means_over_the_valid_steps_of_each_seed():
    env = tiny_envs.build(tiny_envs.Config(horizon=4))
    module = load(METHODS, "vdn_attention")
    method = module.build(module.Config(size=8, heads=2, memory=4), env.spec)
    models = jax.vmap(method.init)(jax.random.split(jax.random.key(0)))
    tasks = jnp.array([[0, 1], [2, 3]])
    played = jax.jit(partial(rollout.collect, env))(models, tasks, jnp.zeros(2), jax.random.split(jax.random.key(1)))
    score = evaluation.score(played)
    np.testing.assert_allclose(score.length_mean, [1.5, 3.5])
    np.testing.assert_allclose(score.return_mean, [(1 + 3) / 2, (6 + 10) / 2])
    np.testing.assert_allclose(score.win_rate, np.asarray(played.won).mean(axis=1))
    assert not played.won[1, 1]  # cut off is not won
    assert played.won[0, 1]  # after an odd number of steps only the winning action is available


def test_tasks_are_told_apart():
    env = tiny_envs.build(tiny_envs.Config(horizon=4))
    module = load(METHODS, "vdn_attention")
    method = module.build(module.Config(size=8, heads=2, memory=4), env.spec)
    models = jax.vmap(method.init)(jax.random.split(jax.random.key(0)))
    won = jax.jit(partial(evaluation.by_task, env, episodes=3))(models, keys=jax.random.split(jax.random.key(1)))
    assert won.shape == (len(env.task_names), 2)
    assert (won[1] == 3).all()  # after an odd number of steps only the winning action is available
    assert (won[3] == 0).all()  # cut off is not won


def test_greedy_play_is_the_same_for_the_same_key():
    env = tiny_envs.build(tiny_envs.Config(horizon=4))
    module = load(METHODS, "vdn_attention")
    models = jax.vmap(module.build(module.Config(size=8, heads=2, memory=4), env.spec).init)(
        jax.random.split(jax.random.key(0), 1)
    )
    score = [evaluation.greedy(env, models, 8, jax.random.split(jax.random.key(5), 1)) for _ in range(2)]
    jax.tree.map(np.testing.assert_array_equal, *score)
