"""`refil record`, and the datasets that it writes."""

import numpy as np
import pytest

from refil import datasets, recording
from refil.cli import record
from tests import tiny_envs


def test_a_trained_team_is_recorded(refil, run, tmp_path):
    path = tmp_path / "data.npz"
    out, _, code = refil("record", str(run.path), "--episodes", "40", "--out", str(path))
    assert code == 0
    assert "40 episodes" in out
    found = datasets.read_dataset(path)
    assert found.metadata["env"] == "group_matching"
    assert found.metadata["env_options"]["agents"] == 3
    assert found.metadata["policy"].startswith("refil, seed 0")
    assert found.entities.shape == (40, found.actions.shape[1] + 1, 3, 8)


def test_recorded_episodes_are_those_of_the_environment():
    env = tiny_envs.build(tiny_envs.Config())
    found = recording.record(env, 40, {})
    lengths = found.valid.sum(axis=1)
    assert lengths.tolist() == [min(length, 4) for length in np.array([1, 2, 3, 9])[found.task]]
    assert (found.terminated.sum(axis=1) == (lengths < 4)).all()
    for row, length in enumerate(lengths):
        assert found.rewards[row].tolist() == [*range(1, length + 1), *[0] * (4 - length)]
        assert found.entities[row, : length + 1, 0, 0].tolist() == list(range(length + 1))
        assert not found.present[row, length + 1 :].any()
    steps = found.valid[..., None] & found.present[:, :-1, :2]
    assert np.take_along_axis(found.available[:, :-1], found.actions[..., None], axis=-1)[..., 0][steps].all()
    assert len(np.unique(found.task)) == 4


def test_more_episodes_begin_with_the_same_ones_and_a_task_can_be_chosen():
    env = tiny_envs.build(tiny_envs.Config())
    few, many = (recording.record(env, count, {}, seed=3) for count in (20, 40))
    np.testing.assert_array_equal(few.actions, many.actions[:20])
    assert (recording.record(env, 5, {}, task=2).task == 2).all()


def test_bad_arguments_are_refused(refil, run, tmp_path):
    out = str(tmp_path / "data.npz")
    assert "should end in .npz or .safetensors" in refil("record", "group_matching", "--out", "data.txt")[1]
    assert (
        "--epsilon needs a trained team; group_matching is played with random actions"
        in refil("record", "group_matching", "--out", out, "--epsilon", "0.1")[1]
    )
    assert "is not the folder of a run" in refil("record", "runs/nowhere", "--out", out)[1]
    assert "unknown task 'x'" in refil("record", str(run.path), "--out", out, "--task", "x")[1]
    assert "unknown environment 'grup_matching'; did you mean" in refil("record", "grup_matching", "--out", out)[1]


@pytest.mark.slow
def test_a_name_is_a_team_first_and_random_actions_can_be_asked_for(refil, tmp_path):
    path = tmp_path / "data.npz"
    words = ["3-8sz", "--episodes", "2", "--task", "3s", "--out", str(path)]
    for more, policy in (([], "refil_pqn, seed "), (["--random"], "random actions")):
        assert refil("record", *words, *more)[2] == 0
        found = datasets.read_dataset(path)
        assert found.metadata["env"] == "3-8sz"
        assert found.metadata["policy"].startswith(policy)


@pytest.mark.parametrize(
    ("source", "options", "is_random"),
    [
        ("3-8sz", {}, False),
        ("3-8sz", {"random": True}, True),
        ("3-8csz-refil", {"epsilon": 0.1}, False),
        ("3s5z_vs_3s6z", {}, True),
        ("./3-8sz", {}, True),  # a folder that is not there
    ],
)
def test_sources_are_teams_or_played_with_random_actions(tmp_path, source, options, is_random):
    assert record._is_random(record.RecordArgs(source, tmp_path / "data.npz", **options)) == is_random


def test_a_run_is_recorded_with_random_actions_in_its_own_environment(refil, run, tmp_path):
    path = tmp_path / "data.npz"
    assert refil("record", str(run.path), "--random", "--episodes", "3", "--out", str(path))[2] == 0
    found = datasets.read_dataset(path)
    assert (found.metadata["policy"], found.metadata["env_options"]["agents"]) == ("random actions", 3)


@pytest.mark.slow
def test_random_battles_are_recorded(refil, tmp_path):
    path = tmp_path / "data.safetensors"
    assert refil("record", "2-4m", "--episodes", "3", "--task", "3m", "--out", str(path))[2] == 0
    found = datasets.read_dataset(path)
    assert [found.metadata["task_names"][number] for number in found.task] == ["3m"] * 3
