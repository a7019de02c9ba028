"""Other environments for a trained team."""

import pytest

from refil.errors import RefilError
from refil.training import config, transfer


def test_other_tasks_of_the_set_have_the_same_options():
    own = config.default("3-8sz", "refil").with_options({"tasks": "train", "tags": 12, "jitter": False})
    held_out = transfer.build_env(own, tasks="held-out")
    assert "8z" in held_out.task_names
    assert len(held_out.task_names) == 8
    assert held_out.spec == own.build_env().spec
    assert not held_out.config.jitter


def test_another_set_keeps_the_options_and_plays_all_tasks():
    own = config.default("3-8sz", "refil").with_options({"tasks": "train", "tags": 12, "jitter": False})
    larger = transfer.build_env(own, "9-12sz")
    assert len(larger.task_names) == 46
    assert larger.spec.agents == 12
    assert not larger.config.jitter


def test_environments_of_other_sizes_are_refused():
    with pytest.raises(RefilError, match=r"env.tags is|the run needs an environment with 38 features and 14 actions"):
        transfer.build_env(config.default("3-8sz", "refil"), "9-12sz")


def test_environments_without_splits_are_refused():
    with pytest.raises(RefilError, match=r"group_matching is not split .* tasks='train' .*; 3-8sz, 3-8csz and 3-8MMM are"):
        transfer.build_env(config.default("group_matching", "refil"), tasks="train")


def test_other_draws_of_multipliers_are_other_tasks_with_the_same_names():
    own = config.default("2-4m", "refil").with_options({"vary": ["health"], "draws": 2})
    before, fresh = own.build_env(), transfer.build_env(own, draw_seed=1)
    assert fresh.task_names == before.task_names
    assert (fresh.multipliers["health"][:, 0] != before.multipliers["health"][:, 0]).all()


def test_units_vary_in_another_set_as_they_do_in_training():
    own = config.default("3-8sz-varied", "refil").with_options({"variation": 0.5, "draws": 2})
    other = transfer.build_env(own, "3s5z")
    assert other.task_names == ("3s5z#0", "3s5z#1")
    assert other.feature_names == own.build_env().feature_names


def test_units_that_vary_unlike_in_training_are_refused():
    plain, varied = config.default("3-8sz", "refil"), config.default("3-8sz-varied", "refil")
    with pytest.raises(
        RefilError, match=r"3-8sz-varied has 42 features .*; the unit stats that vary .* must be those of train"
    ):
        transfer.build_env(plain, "3-8sz-varied")
    with pytest.raises(
        RefilError, match=r"sc2:3-8sz has 38 features .*; the unit stats that vary .* must be those of training"
    ):
        transfer.build_env(varied, "sc2:3-8sz")
    with pytest.raises(RefilError, match="the unit stats of 3-8sz do not vary, so draw_seed 1 has no effect"):
        transfer.build_env(plain, draw_seed=1)
