"""The runs of a sweep and their folders."""

import json
from dataclasses import replace

import pytest

from refil import user_files
from refil.errors import RefilError
from refil.storage import run_dir
from refil.sweeps.plan import PlannedRun
from refil.sweeps.process import Process
from refil.training import config as configs
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


@pytest.fixture
def foreign(tmp_path):
    """A run of the user's environment in a folder where somebody else has put code of the same name, without a hash."""
    mine, marker = tmp_path / "my_env.py", tmp_path / "marker"
    mine.write_text("from refil.envs.group_matching import Config, build\n")
    config = small("vdn_attention")
    env = replace(configs.default(str(mine), "vdn_attention").env, options=config.env.options)
    run = PlannedRun("A", replace(config, env=env), tmp_path / "a")
    run.prepare()
    (run.path / "code" / "env" / "my_env.py").write_text(f"open({str(marker)!r}, 'w').close()\n" + mine.read_text())
    values = json.loads((run.path / run_dir.CONFIG).read_text())
    values["env"] = {name: value for name, value in values["env"].items() if name != "sha256"} | {"name": "code/env/my_env.py"}
    (run.path / run_dir.CONFIG).write_text(json.dumps(values))
    return run, marker


@pytest.mark.parametrize("learned", [False, True])
def test_code_without_a_hash_is_replaced_by_the_users(foreign, learned):
    run, marker = foreign
    if learned:  # as in version 0.2.0, which stored no hashes
        learn(run, 60)
    run.prepare()
    assert run_dir.open_run(run.path).config == run.config
    assert (run.path / "code" / "env" / "my_env.py").read_bytes() == next(iter(run.config.code().values()))
    assert not marker.exists()


def test_a_process_runs_no_other_code_than_that_of_its_run(foreign, monkeypatch, tmp_path):
    run, marker = foreign
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another machine"))
    process = Process(run.path, user_files.trusting(run.hashes), None)
    assert process.process.wait(300) == 2
    assert "my_env.py is code that you have not run before" in process.poll().error
    assert not marker.exists()
    run.prepare()
    process = Process(run.path, user_files.trusting(run.hashes), 0.0)
    assert process.process.wait(300) in (0, 130), process.poll()
