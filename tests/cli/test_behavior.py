"""refil behavior: counts of a team and of scripts, and errors."""

import json

import jax
import pytest

from refil.storage import run_dir
from refil.training import config


def untrained_run(env, folder, env_options):
    """Write a run of two seeds with untrained models."""
    run_config = config.default(env, "vdn_attention").with_options(env_options, {"size": 8, "heads": 2})
    run = run_dir.create(folder, run_config)
    models = jax.vmap(run_config.build().method.init)(jax.random.split(jax.random.key(0), 2))
    run.save_models(models, [0, 1], run_config)
    return str(run.path)


@pytest.mark.slow
def test_the_behavior_of_a_team_is_printed_next_to_that_of_scripts(refil, tmp_path):
    run = untrained_run("2m_vs_1m", tmp_path / "team", {"limit": 10})
    counts = json.loads(refil("behavior", run, "--episodes", "2", "--scripts", "nearest", "stop", "--json")[0])
    for players in counts.values():
        assert list(players) == ["vdn_attention", "nearest", "stop"]
        assert all(0 <= taken <= opportunities for opportunities, taken in players.values())
    assert counts["attack an enemy that another agent attacks"]["stop"] == [0, 0]
    _, error, code = refil("behavior", run, "--scripts", "sulk")
    assert code == 2
    assert "unknown script 'sulk'; available: attack_move" in error


def test_behavior_is_measured_in_battles_only(refil, tmp_path):
    _, error, code = refil("behavior", untrained_run("group_matching", tmp_path / "team", {"agents": 3}))
    assert code == 2
    assert "behavior is measured in StarCraft battles; group_matching has none" in error


@pytest.mark.slow
def test_a_team_that_ships_is_measured(refil):
    counts = json.loads(refil("behavior", "3-8csz-refil", "--episodes", "2", "--scripts", "stop", "--json")[0])
    for players in counts.values():
        assert list(players) == ["refil", "stop"]


def test_a_name_that_is_no_team_is_refused(refil):
    _, error, code = refil("behavior", "3-8zs")
    assert code == 2
    assert "there is no team and no folder '3-8zs'; did you mean" in error
