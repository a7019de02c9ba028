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
    with pytest.raises(RefilError, match="group_matching has no tasks to train on and to hold out"):
        transfer.build_env(config.default("group_matching", "refil"), tasks="train")
