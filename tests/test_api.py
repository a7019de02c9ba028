"""The Python API: environments to step, training, saved teams, evaluation, and errors in Python terms."""

import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import refil
from refil import api, examples
from refil.checks import methods
from refil.errors import RefilError
from refil.training import evaluation

EXAMPLES = next(iter(examples.__path__))
GAME = {"agents": 3, "cells": 3, "horizon": 6}
TINY = {"size": 8, "heads": 2, "mixing": 4}
QUICK = {"steps": 80, "envs": 2, "batch": 4, "buffer": 16, "pack": [], "eval_every": 40, "eval_episodes": 4, "log_every": 10}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of two seeds, trained outside the main thread."""
    found = []
    out = tmp_path_factory.mktemp("api") / "run"
    call = {"out": out, "seeds": 2, "env_options": GAME, "method_options": TINY, "callback": found.append, **QUICK}
    thread = threading.Thread(target=lambda: found.append(refil.train("group_matching", **call)))
    thread.start()
    thread.join()
    *lines, run = found
    assert lines == list(run.metrics)
    return run


def test_importing_refil_imports_neither_jax_nor_numpy():
    code = "import refil, sys; assert not {'jax', 'numpy', 'tyro'} & set(sys.modules); refil.make; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_refil_lists_its_public_names():
    assert dir(refil) == sorted(["__version__", *refil.__all__])


def test_a_path_names_a_file_like_a_string():
    path = Path(EXAMPLES) / "beacon.py"
    assert refil.make(path).name == str(path)


def test_a_run_has_metrics_and_a_team_per_seed(run):
    assert run.finished
    assert {line["seed"] for line in run.metrics} == {0, 1}
    assert all(0 <= line["win_rate"] <= 1 for line in run.metrics if "win_rate" in line)
    assert [team.seed for team in run.teams] == [0, 1]
    table = run.metrics.to_pandas()
    assert len(table) == len(run.metrics)
    assert table["env_steps"].max() >= 80


def test_a_saved_team_is_the_trained_one(run):
    loaded = refil.load(run.path, seed=1)
    jax.tree.map(np.testing.assert_array_equal, loaded.model, run.teams[1].model)
    with pytest.raises(RefilError, match="no model of seed 7; available: 0, 1"):
        refil.load(run.path, seed=7)


def test_a_run_resumes_for_longer(run, tmp_path):
    again = refil.train(
        "group_matching", out=run.path, resume=True, seeds=2, env_options=GAME, method_options=TINY, **{**QUICK, "steps": 120}
    )
    assert again.metrics[-1]["env_steps"] >= 120
    assert list(again.metrics)[: len(run.metrics)] == list(run.metrics)


def test_a_run_can_start_from_a_trained_team(run):
    options = {**QUICK, "steps": 6, "batch": 16}  # too few episodes for an update
    started = refil.train("group_matching", init=run.teams[0], env_options=GAME, method_options=TINY, **options)
    jax.tree.map(np.testing.assert_array_equal, started.teams[0].model, run.teams[0].model)


def test_training_stops_when_asked():
    stopped = refil.train("group_matching", env_options=GAME, method_options=TINY, should_stop=lambda: True, **QUICK)
    assert not stopped.finished
    assert not stopped.metrics


def test_evaluation_has_a_rate_an_interval_and_tasks(run):
    result = refil.evaluate(run.teams[0], episodes=8)
    assert result.ci95[0] <= result.win_rate <= result.ci95[1]
    assert 1 <= result.length_mean <= 6
    by_task = refil.evaluate(run.teams[0], episodes=8, by_task=True)
    assert list(by_task.by_task) == ["group_matching"]
    (task,) = by_task.by_task.values()
    assert (task.win_rate, task.return_mean, task.length_mean) == (by_task.win_rate, by_task.return_mean, by_task.length_mean)
    assert 1 <= task.length_mean <= 6
    assert task.ci95[0] <= task.win_rate <= task.ci95[1]
    assert (task.won_length_mean is None) == (task.win_rate == 0)


def test_the_length_of_won_episodes_is_weighted_by_the_wins_of_tasks():
    rates, lengths = jnp.array([[0.25], [0.75], [0.0]]), jnp.array([[8.0], [4.0], [np.nan]])
    found = api._means(evaluation.EvalResult(rates, rates, rates, lengths, {}), 12)
    assert found["won_length_mean"] == 5.0  # of 4 won episodes, one took 8 steps and three took 4
    assert api._means(evaluation.EvalResult(rates[2], rates[2], rates[2], lengths[2], {}), 4)["won_length_mean"] is None


def test_a_team_is_not_evaluated_in_an_environment_of_other_sizes(run):
    with pytest.raises(RefilError, match="needs an environment with 8 features and 3 actions, not 16 features"):
        refil.evaluate(run.teams[0], env=refil.make("group_matching"), episodes=1)


def test_an_environment_fills_in_last_actions_and_enforces_the_horizon():
    env = refil.make(f"{EXAMPLES}/beacon.py", horizon=3)
    state, obs = env.reset(jax.random.key(0), task="4 agents")
    assert obs.is_first
    np.testing.assert_array_equal(obs.last_action, -1)
    np.testing.assert_array_equal(obs.alive, obs.present)
    stay = jnp.ones(4, jnp.int32)
    outcomes = []
    for _ in range(5):
        state, obs, outcome = env.step(state, stay, jax.random.key(1))
        outcomes.append(outcome)
    np.testing.assert_array_equal(obs.last_action, stay)
    assert not obs.is_first
    assert [bool(outcome.truncated) for outcome in outcomes] == [False, False, True, False, False]
    np.testing.assert_allclose([outcome.reward for outcome in outcomes], [-0.1, -0.1, -0.1, 0, 0], atol=1e-6)
    assert state.time == 3


def test_tasks_are_sampled_or_chosen_by_name():
    env = refil.make(f"{EXAMPLES}/beacon.py")
    state, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 60))
    sizes = np.bincount(state.core.team_size, minlength=5)[2:]
    assert (sizes > 8).all()
    assert env.reset(jax.random.key(0), task=1)[0].core.team_size == 3
    with pytest.raises(RefilError, match=r"unknown task '5 agents'.*did you mean '. agents'\? Available: 2 agents, 3"):
        env.reset(jax.random.key(0), task="5 agents")


def test_dead_entities_can_be_masked():
    env = refil.make("3m", mask_dead=True)
    assert env.spec.agents == 3
    state, _ = env.reset(jax.random.key(0))
    dead = eqx.tree_at(lambda tree: tree.core.health, state, state.core.health.at[1].set(0.0))
    present = np.asarray(env.core.observe(dead.core).present)
    assert not present[1]
    assert present[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: refil.make("group_matchin"), "did you mean 'group_matching'"),
        (lambda: refil.make("group_matching", cell=3), "env has no option 'cell'.*cells"),
        (lambda: refil.make("group_matching", cells=0), "env.cells must be from 1 to"),
        (lambda: refil.train("group_matching", method="refill"), "did you mean 'refil'"),
        (lambda: refil.train("group_matching", stepz=3), "did you mean 'steps'"),
        (lambda: refil.train("group_matching", batch=64, buffer=32), "algorithm.batch 64"),
        (lambda: refil.train("group_matching", resume=True), "resume=True needs out"),
        (lambda: refil.load("no/such/run"), "holds no run"),
    ],
)
def test_errors_name_the_bad_value_in_python_terms(call, message):
    with pytest.raises(RefilError, match=message):
        call()


@pytest.mark.parametrize("pack", [pytest.param([], marks=pytest.mark.slow), [0.5]], ids=["padded", "packed"])
@pytest.mark.parametrize(
    "method", ["mingru", *(pytest.param(name, marks=pytest.mark.slow) for name in ("weighted_vdn", "iql_lambda"))]
)
def test_the_examples_train(method, pack):
    options = {"size": 8, "heads": 2} | ({} if method == "mingru" else {"recurrent": False})
    quick = {**QUICK, "steps": 120, "eval_every": 120, "pack": pack}
    run = refil.train(f"{EXAMPLES}/beacon.py", method=f"{EXAMPLES}/{method}.py", method_options=options, **quick)
    assert run.metrics[-1]["updates"] > 0
    assert np.isfinite(run.metrics[-1]["loss"])


@pytest.mark.parametrize(
    "name", ["mingru", *(pytest.param(name, marks=pytest.mark.slow) for name in ("weighted_vdn", "iql_lambda"))]
)
def test_packing_changes_neither_loss_nor_gradient_of_the_examples(name):
    module = import_module(f"refil.examples.{name}")
    method = module.build(module.Config(size=8, heads=2), methods.SPEC)
    methods.packed_equals_padded(methods.Subject(method, methods.SPEC), 5)


@pytest.mark.slow
def test_metrics_of_an_environment_are_logged_with_evaluations(tmp_path):
    path = tmp_path / "measured.py"
    with open(f"{EXAMPLES}/beacon.py") as file:
        text = file.read().replace("won=solved)", 'won=solved, metrics={"arrived": after.arrived})')
    path.write_text(text.replace("    action_names:", '    metric_names: tuple[str, ...] = ("arrived",)\n    action_names:'))
    options = {"size": 8, "heads": 2}
    run = refil.train(str(path), method="vdn_attention", method_options=options, out=tmp_path / "run", **QUICK)
    evaluated = [line for line in run.metrics if "win_rate" in line]
    assert evaluated
    assert all(0 <= line["metrics.arrived"] <= 8 * 4 for line in evaluated)
    assert not any("metrics.arrived" in line for line in run.metrics if "win_rate" not in line)
    result = refil.evaluate(run.teams[0], episodes=4, by_task=True)
    assert result.metrics["arrived"] == pytest.approx(np.mean([task.metrics["arrived"] for task in result.by_task.values()]))
    assert 0 <= refil.evaluate(run.teams[0], episodes=4).metrics["arrived"] <= 8 * 4


def test_a_broken_environment_leaves_nothing_behind(tmp_path):
    path = tmp_path / "broken.py"
    with open(f"{EXAMPLES}/beacon.py") as file:
        path.write_text(file.read().replace("actions=3, horizon", "actions=5, horizon"))
    with pytest.raises(RefilError, match=r"broken.py: observe\(\) gives available for 3 actions, spec.actions is 5"):
        refil.train(str(path), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
