"""Commands on runs whose files are damaged: one sentence that names the file, and no change."""

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest

from refil.storage.run_dir import RunDir

EXPERIMENT = """
from pathlib import Path
from refil.training import config
def runs(): return {"only": config.read(Path(CONFIG).read_text(), "here")}
def report(done, out): return [run.metrics() for run in done.values()]
"""


@pytest.fixture
def copy(run, tmp_path) -> RunDir:
    shutil.copytree(run.path, tmp_path / "sweep" / "only")
    return RunDir(tmp_path / "sweep" / "only")


@pytest.fixture
def experiment(run, tmp_path) -> str:
    (tmp_path / "mine.py").write_text(EXPERIMENT.replace("CONFIG", repr(str(run.path / "config.json"))))
    return str(tmp_path / "mine.py")


def bad_line(path: Path) -> str:
    text = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (path / "metrics.jsonl").write_text("".join([*text[:2], "{nonsense}\n", *text[2:]]))
    return "metrics.jsonl, line 3: Expecting property name"


def impossible_win_rate(path: Path) -> str:
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text.replace('"win_rate": ', '"win_rate": 7', 1))
    return "metrics.jsonl, line 1: win_rate should be from 0 to 1, not 7"


def fifo(path: Path) -> str:
    (path / "metrics.jsonl").unlink()
    os.mkfifo(path / "metrics.jsonl")
    return "metrics.jsonl: it is a FIFO, not a regular file"


def changed_number(path: Path) -> str:
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text.replace('"epsilon": 0.', '"epsilon": 1.', 1))
    return "metrics.jsonl does not match checkpoint.safetensors"


@pytest.mark.parametrize(
    ("command", "damage"),
    [
        *(("plot", damage) for damage in (bad_line, impossible_win_rate, fifo, changed_number)),
        *(("resume", damage) for damage in (bad_line, fifo, changed_number)),
        ("sweep", changed_number),
    ],
)
def test_damaged_metrics_are_one_sentence_with_file_and_line(refil, copy, experiment, command, damage):
    expected = damage(copy.path)
    sweep = ("sweep", experiment, "--out", str(copy.path.parent))
    commands = {"plot": ("plot", str(copy.path)), "resume": ("train", "--resume", str(copy.path)), "sweep": sweep}
    before = contents(copy.path)
    _, error, code = refil(*commands[command])
    assert code == 2
    assert error.splitlines()[-1].startswith("refil: ")
    assert expected in error.splitlines()[-1]
    assert "Traceback" not in error
    assert contents(copy.path) == before


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}


def test_damaged_wins_by_task_are_one_sentence(refil, copy):
    (copy.path / "by_task.json").write_text('{"episodes": 4, "won": {"a": [9]}}')
    _, error, code = refil("plot", str(copy.path), "--figure", "tasks_ranked")
    assert code == 2
    assert "by_task.json, line 1: task 'a' should have numbers of won episodes from 0 to 4, not [9]" in error


EDITS = [("train", "seed", 9), ("method", "heads", 4), ("train", "envs", None)]  # None: deleted
COMMANDS = [("evaluate",), ("watch", "--html", "x.html"), ("train", "--resume")]


@pytest.mark.parametrize(
    ("command", "edit"), [*itertools.product(COMMANDS, EDITS), *((("plot",), edit) for edit in EDITS[:2])], ids=str
)
def test_an_edited_config_is_refused_with_the_difference(refil, copy, command, edit):
    section, name, value = edit
    stored = json.loads((copy.path / "config.json").read_text())
    if value is None:
        del stored[section][name]
    else:
        stored[section][name] = value
    (copy.path / "config.json").write_text(json.dumps(stored))
    words = (command[0], str(copy.path), *command[1:]) if command[0] != "train" else (*command, str(copy.path))
    _, error, code = refil(*words)
    assert code == 2
    assert f"the config lacks {section}.{name}" in error if value is None else f"{name} {value}" in error
    assert json.loads((copy.path / "config.json").read_text()) == stored


def test_a_bad_line_after_the_checkpoint_does_not_block_resuming(refil, copy):
    before = (copy.path / "metrics.jsonl").read_bytes()
    with (copy.path / "metrics.jsonl").open("ab") as file:
        file.write(b"nonsense\n\xff")
    printed, error, code = refil("train", "--resume", str(copy.path))
    assert code == 0, error
    assert "Next steps" in printed
    assert (copy.path / "metrics.jsonl").read_bytes() == before


def test_a_run_killed_before_its_first_line_resumes(refil, run, tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copy(run.path / "config.json", tmp_path / "run")
    _, error, code = refil("train", "--resume", str(tmp_path / "run"))
    assert code == 0, error
    model = "model_seed_1.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (run.path / model).read_bytes()


def test_an_error_while_compiling_does_not_block_the_same_command(refil, run, tmp_path, monkeypatch):
    from refil.training.trainer import Trainer

    def fail(self, state):
        raise FloatingPointError("in the compiler")

    monkeypatch.setattr(Trainer, "compile", fail)
    for _ in range(2):  # the second time gets as far as the first
        with pytest.raises(FloatingPointError):
            refil("train", "--config", str(run.path / "config.json"), "--out", str(tmp_path / "run"))
    assert RunDir(tmp_path / "run").metrics() == []
    assert not (tmp_path / "run" / "aborted_1").exists()


def test_a_copy_of_a_model_is_skipped_with_a_warning(refil, copy):
    shutil.copy(copy.path / "model_seed_0.safetensors", copy.path / "model_seed_0 (copy).safetensors")
    with pytest.warns(UserWarning, match=r"model_seed_0 \(copy\).safetensors is ignored"):
        printed, _, code = refil("evaluate", str(copy.path), "--episodes", "2", "--json")
    assert (code, json.loads(printed)["seeds"]) == (0, 2)
