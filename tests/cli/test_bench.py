"""`refil bench`."""

import json

import pytest

from refil.cli import bench
from refil.errors import RefilError


@pytest.mark.slow
def test_the_result_is_json_with_the_documented_keys_and_a_trace_is_written(refil, tmp_path):
    game = ["--env.agents", "3", "--env.horizon", "6", "--method.size", "8"]
    short = ["--batch", "5", "--steps", "6", "--pack", "--envs", "2", "--buffer", "20", "--repeats", "1", "--json", "--parts"]
    trace = ["--profile", str(tmp_path)]
    result = json.loads(refil("bench", "group_matching", "--method", "vdn_attention", *game, *short, *trace)[0])
    assert list(tmp_path.rglob("*.xplane.pb"))
    speeds = {"env_steps_per_s", "ms_per_update", "train_steps_per_s", "minutes_for_10m", "compile_s", "compile_cached_s"}
    parts = {"ms_rebuild", "ms_forward", "ms_backward", "ms_optimizer"}
    assert set(result) == speeds | parts | {"state_bytes", "device", "envs", "seeds"}
    assert all(result[name] > 0 for name in (*speeds, "ms_rebuild", "state_bytes"))
    assert (result["envs"], result["seeds"]) == (2, 1)


@pytest.mark.slow
def test_on_policy_training_is_timed(refil):
    game = ["--env.agents", "3", "--env.horizon", "6", "--method.size", "8", "--method.memory", "8", "--method.heads", "2"]
    short = ["--envs", "4", "--rollout", "4", "--reset-every", "4", "--minibatches", "2", "--epochs", "2"]
    result = json.loads(refil("bench", "group_matching", "--method", "vdn_pqn", *game, *short, "--json", "--parts")[0])
    names = ("env_steps_per_s", "ms_per_update", "train_steps_per_s", "ms_targets", "state_bytes")
    assert all(result[name] > 0 for name in names)
    assert {"ms_forward", "ms_backward"} < set(result)


@pytest.mark.parametrize("flag", ["--out", "--resume"])
def test_options_about_stored_runs_are_refused(refil, flag):
    _, error, code = refil("bench", flag, "somewhere")
    assert code == 2
    assert f"{flag} is an option of refil train" in error


def test_errors_name_flags(refil):
    _, error, code = refil("bench", "group_matching", "--batch", "9", "--buffer", "8")
    assert code == 2
    assert "--batch 9 is larger than --buffer 8" in error


def test_an_environment_is_measured_alone(refil):
    result = json.loads(refil("bench", "group_matching", "--random", "--envs", "4", "--repeats", "1", "--json")[0])
    assert result["env_steps_per_s"] > 0
    assert result["envs"] == 4


def test_a_real_game_is_not_timed():
    with pytest.raises(RefilError, match="sc2:3-8sz plays a real game, and only compiled programs are timed"):
        bench.main(["sc2:3-8sz", "--random"])
