"""`refil status`."""

import numpy as np

from refil.storage import run_dir
from tests.tiny_runs import small


def test_runs_are_listed_with_their_state(refil, tmp_path):
    run = run_dir.create(tmp_path / "out" / "refil_on_3_8sz", small(steps=1000))
    for steps in (250, 500):
        run.append_metrics([{"seed": 0, "env_steps": steps, "updates": 1, "seconds": steps / 10, "win_rate": 0.4}])
    run.save_checkpoint({"x": np.zeros(1)}, run.config, 50.0, run.metrics_bytes)
    (tmp_path / "out" / "notes").mkdir()
    printed, _, code = refil("status", str(tmp_path / "out"))
    assert code == 0
    for word in ("refil_on_3_8sz", "waiting", "50%", "40%", "50 s", "0 finished, 0 running, 0 failed, 1 waiting"):
        assert word in printed
    assert "notes" not in printed


def test_watching_ends_when_nothing_is_left_to_wait_for(refil, tmp_path):
    run = run_dir.create(tmp_path / "run", small(steps=100))
    run.append_metrics([{"seed": 0, "env_steps": 100, "updates": 1, "seconds": 1.0, "win_rate": 1.0}])
    printed, _, code = refil("status", str(tmp_path / "run"), "--watch")
    assert code == 0
    assert "1 finished" in printed


def test_a_folder_without_runs_is_refused(refil, tmp_path):
    _, error, code = refil("status", str(tmp_path))
    assert code == 2
    assert "holds no run and no folder of runs" in error
