"""Files of a run that go from one machine to another."""

import os

import pytest

from refil.errors import RefilError
from refil.sweeps import shipping


def test_only_what_has_changed_is_shipped(tmp_path):
    here, there, known = tmp_path / "here", tmp_path / "there", {}
    (here / "code" / "env").mkdir(parents=True)
    (here / "code" / "env" / "mine.py").write_text("x = 1")
    (here / "metrics.jsonl").write_text("1\n")
    (here / "unsaved").write_text("")
    for name in ("lock", "claim_1.json", ".config.json.0123456789abcdef.part"):
        (here / name).write_text("mine")
    shipping.apply(there, shipping.changes(here, known))
    assert sorted(path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()) == [
        "code/env/mine.py",
        "metrics.jsonl",
        "unsaved",
    ]
    assert shipping.changes(here, known) == shipping.Changes({}, [])
    (here / "metrics.jsonl").write_text("1\n2\n")
    (here / "unsaved").unlink()
    shipped = shipping.changes(here, known)
    assert shipped == shipping.Changes({"metrics.jsonl": b"1\n2\n"}, ["unsaved"])
    shipping.apply(there, shipped)
    assert (there / "metrics.jsonl").read_text() == "1\n2\n"
    assert not (there / "unsaved").exists()


def test_metrics_are_written_before_the_checkpoint_that_covers_them(tmp_path):
    shipped = shipping.Changes({"checkpoint.safetensors": b"c", "model_seed_0.safetensors": b"s", "metrics.jsonl": b"m"}, [])
    (tmp_path / "checkpoint.safetensors").mkdir()  # what comes last cannot be written
    with pytest.raises(RefilError, match="cannot write"):
        shipping.apply(tmp_path, shipped)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.safetensors", "metrics.jsonl", "model_seed_0.safetensors"]


def test_a_fifo_that_has_just_replaced_a_file_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "log.txt")
    monkeypatch.setattr(shipping, "_stamps", lambda path: {"log.txt": (1, 1), "gone": (1, 1)})
    known = {}
    assert shipping.changes(tmp_path, known) == shipping.Changes({}, [])
    assert known == {}
