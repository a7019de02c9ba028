"""The runs of a sweep and their folders."""

import pytest

from refil.errors import RefilError
from refil.storage import run_dir
from refil.sweeps.plan import PlannedRun
from tests.tiny_runs import small


def planned(path, **changes) -> PlannedRun:
    return PlannedRun("A", small(**changes), path / "a")


def learn(run: PlannedRun, steps: int) -> None:
    run_dir.open_run(run.path).append_metrics([{"seed": 0, "env_steps": steps, "updates": 1}])


def test_a_run_in_which_nothing_was_learned_gets_the_new_options(tmp_path):
    planned(tmp_path, batch=4).prepare()
    planned(tmp_path, batch=3).prepare()
    assert run_dir.open_run(tmp_path / "a").config.algorithm.batch == 3


def test_a_run_that_has_learned_keeps_its_options_but_may_become_longer(tmp_path):
    planned(tmp_path).prepare()
    learn(planned(tmp_path), 60)
    planned(tmp_path, steps=300, save_every=1.0).prepare()
    config = run_dir.open_run(tmp_path / "a").config
    assert (config.train.steps, config.output.save_every) == (300, 1.0)
    with pytest.raises(RefilError, match=r"a holds a run with other options: algorithm.batch; choose another folder"):
        planned(tmp_path, steps=300, batch=3).prepare()
    assert run_dir.open_run(tmp_path / "a").config == config


def test_a_run_is_finished_when_all_seeds_have_made_their_steps(tmp_path):
    run = planned(tmp_path, seeds=2)
    assert not run.is_finished
    run.prepare()
    learn(run, 200)
    assert not run.is_finished
    run_dir.open_run(run.path).append_metrics([{"seed": 1, "env_steps": 199}])
    assert not run.is_finished
    run_dir.open_run(run.path).append_metrics([{"seed": 1, "env_steps": 204}])
    assert run.is_finished
