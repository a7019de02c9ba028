"""Advice of the library as commands and flags."""

import pytest

from refil.cli import _advice
from refil.errors import RefilError
from refil.storage import run_dir
from tests.tiny_runs import small


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("read it, and if you trust it pass trust=True", "read it, and if you trust it pass --trust"),
        ("Tesla T4 is older than Ampere; kernels='on' tries them", "Tesla T4 is older than Ampere; '--kernels on' tries them"),
        ("gpus=3 asks for more GPUs than there are", "--gpus 3 asks for more GPUs than there are"),
        ("the job option 'x' should be NAME=VALUE", "--slurm-options 'x' should be NAME=VALUE"),
        ("resuming the run saves both again", "'refil train --resume RUN' saves both again"),
        ("there is no file /x/gpus=3", "there is no file /x/gpus=3"),
    ],
)
def test_advice_becomes_commands_and_flags(text, translated):
    assert _advice.as_commands(text) == translated


def test_advice_about_a_run_names_its_folder(tmp_path):
    created = run_dir.create(tmp_path / "run", small())
    with pytest.raises(RefilError) as error:
        created.by_task()
    assert _advice.error_text(error.value).endswith(f"; 'refil evaluate {created.path} --by-task' creates it")
    (created.path / run_dir.METRICS).write_text("{}\n")  # without a checkpoint, and not from a start that failed
    with pytest.raises(RefilError) as error:
        created.archive_unsaved()
    again = f"'refil train --config {created.path}/config.json --out DIR' repeats it"
    assert _advice.error_text(error.value).endswith(again)


def test_every_command_prints_errors_that_way(run, refil):
    _, error, code = refil("train", "group_matching", "--out", str(run.path))
    assert code == 2
    assert f"already holds a run: 'refil train --resume {run.path}' continues it, or choose another folder" in error
