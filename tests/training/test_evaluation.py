"""Evaluation of teams in an environment that counts its steps."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout as rollouts
from refil.nn.utilities import team_policy, team_state
from refil.plugins import load
from refil.rollout import rollout
from refil.training import evaluation
from refil.types import Trajectory
from tests import tiny_envs
from tests.training.contracts.test_env import changed

ENV = tiny_envs.build(tiny_envs.Config(horizon=4))
KEYS = jax.random.split(jax.random.key(1))


@pytest.fixture(scope="module")
def models():
    module = load("refil.methods", "vdn_attention")
    method = module.build(module.Config(size=8, heads=2, memory=4), ENV.spec)
    return jax.jit(jax.vmap(method.init))(jax.random.split(jax.random.key(0)))


def test_results_are_means_over_the_valid_steps_of_each_seed(models):
    tasks = jnp.array([[0, 1], [2, 3]])
    play = jax.jit(lambda: rollout(ENV, team_policy(models, jnp.zeros(2)), team_state(models, 2, 2), tasks, KEYS))
    played = play()
    result = evaluation.summarize(played)
    np.testing.assert_allclose(result.length_mean, [1.5, 3.5])
    np.testing.assert_allclose(result.return_mean, [(1 + 3) / 2, (6 + 10) / 2])
    np.testing.assert_allclose(result.win_rate, np.asarray(played.won).mean(axis=1))
    assert not played.won[1, 1]  # a truncated episode is not won
    assert played.won[0, 1]  # after an odd number of steps only the winning action is available


def test_the_length_of_won_episodes_leaves_out_the_others():
    """Two seeds with three episodes of 2, 4 and 3 steps; one wins the first two, and one none."""
    valid = jnp.arange(4) < jnp.array([2, 4, 3])[:, None]
    valid, won = jnp.stack([valid, valid]), jnp.array([[True, True, False], [False, False, False]])
    task, key = jnp.zeros(won.shape, int), jnp.zeros((*won.shape, 2), jnp.uint32)
    actions = jnp.zeros((*valid.shape, 1), int)
    played = Trajectory((), actions, jnp.ones(valid.shape), valid, valid, won, task, key)
    result = jax.jit(evaluation.summarize)(played)
    np.testing.assert_allclose(result.won_length_mean, [3, np.nan])
    np.testing.assert_allclose(result.length_mean, [3, 3])
    first, second = (jax.device_get(result).line(row) for row in (0, 1))
    assert (first["won_length_mean"], second["won_length_mean"]) == (3.0, None)
    assert list(first) == ["win_rate", "return_mean", "length_mean", "won_length_mean"]


def test_every_task_has_its_own_means(models):
    reported = []
    result = evaluation.evaluate_by_task(ENV, models, 3, KEYS, reported.append)
    assert len(reported) == len(ENV.task_names)
    assert reported[1] == f"task 2 of {len(ENV.task_names)}: {ENV.task_names[1]}"
    assert result.win_rate.shape == (len(ENV.task_names), 2)
    assert (result.win_rate[1] == 1).all()  # after an odd number of steps only the winning action is available
    assert (result.win_rate[3] == 0).all()  # a truncated episode is not won
    np.testing.assert_array_equal(result.length_mean, [[1, 1], [2, 2], [3, 3], [4, 4]])
    np.testing.assert_array_equal(result.won_length_mean[1], [2, 2])
    assert np.isnan(result.won_length_mean[3]).all()
    np.testing.assert_array_equal(result.return_mean, [[1, 1], [3, 3], [6, 6], [10, 10]])


def test_evaluation_is_the_same_for_the_same_key_and_differs_with_random_actions(models):
    evaluate = jax.jit(lambda keys, epsilon: evaluation.evaluate(ENV, models, 40, keys, epsilon), static_argnums=1)
    one, other = evaluate(KEYS, 0.0), evaluate(KEYS, 0.0)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    random = evaluate(KEYS, 1.0)
    np.testing.assert_array_equal(random.length_mean, one.length_mean)  # the same tasks, whose lengths do not depend on actions
    # Tasks of 2 steps are always won, those of 1 and 3 steps half of the time, and the fourth one never.
    np.testing.assert_allclose(random.win_rate, 0.5, atol=0.2)


def test_metrics_of_outcomes_are_summed_over_steps_and_averaged_over_episodes():
    def step(state, actions, key):
        after, outcome = ENV.step(state, actions, key)
        return after, replace(outcome, metrics={"half": outcome.reward / 2, "steps": jnp.int32(1)})

    env, tasks = changed({"step": step, "metric_names": ("half", "steps")}), jnp.array([[0, 1], [2, 3]])
    played = jax.jit(lambda: rollout(env, rollouts.no_policy, (), tasks, KEYS))()
    np.testing.assert_allclose(played.metrics["half"], [[0.5, 1.5], [3, 5]])  # steps pay 1, 2, 3, 4 up to the end
    found = evaluation.summarize(played).metrics
    np.testing.assert_allclose(found["half"], [1, 4])
    np.testing.assert_allclose(found["steps"], [1.5, 3.5])
