"""The file of metrics."""

import pytest

from refil.errors import RefilError
from refil.storage.metadata import CheckpointMetadata
from refil.storage.metrics_file import MetricsFile

LINES = [{"seed": 0, "env_steps": steps} for steps in (1, 2)]


@pytest.fixture
def metrics(tmp_path) -> MetricsFile:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append(LINES[:1])
    return file


def saved(metrics: MetricsFile) -> CheckpointMetadata:
    return CheckpointMetadata("", 0.0, metrics.size, metrics.checksum(metrics.size), None)


def test_a_missing_file_has_no_lines(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    assert (metrics.read(), metrics.size, metrics.has_learned) == (b"", 0, False)
    metrics.truncate(saved(metrics))
    assert metrics.path.read_bytes() == b""


def test_damaged_lines_after_a_checkpoint_are_cut_off(metrics):
    checkpoint, before = saved(metrics), metrics.read()
    with metrics.path.open("ab") as file:
        file.write(b"garbage\n\xff\0")
    metrics.truncate(checkpoint)
    assert metrics.read() == before


def test_metrics_that_changed_before_the_checkpoint_are_not_cut(metrics):
    checkpoint = saved(metrics)
    metrics.append(LINES)
    changed = metrics.read().replace(b'"env_steps": 1', b'"env_steps": 7')
    metrics.path.write_bytes(changed)
    with pytest.raises(RefilError, match=r"does not match checkpoint.safetensors: its first 28 bytes have changed"):
        metrics.truncate(checkpoint)
    assert metrics.read() == changed


def test_metrics_of_version_0_2_0_are_parsed_in_place_of_a_checksum(metrics):
    checkpoint = saved(metrics)._replace(metrics_checksum=None)
    metrics.truncate(checkpoint)
    metrics.path.write_bytes(b"x" * 27 + b"\n")
    with pytest.raises(RefilError, match=r"metrics.jsonl, line 1: Expecting value"):
        metrics.truncate(checkpoint)


def test_metrics_are_not_appended_through_a_link(metrics, tmp_path):
    metrics.path.rename(tmp_path / "victim")
    metrics.path.symlink_to(tmp_path / "victim")
    before = metrics.read()
    with pytest.raises(RefilError, match=r"cannot write .*metrics.jsonl: it is a symbolic link"):
        metrics.append(LINES)
    with pytest.raises(RefilError, match="it is a symbolic link"):
        metrics.truncate(CheckpointMetadata("", 0.0, 0, None, None))
    assert (tmp_path / "victim").read_bytes() == before


def test_metrics_without_updates_show_that_nothing_was_learned(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.append([LINES[0] | {"updates": 0}])
    assert not metrics.has_learned
    metrics.append([LINES[1] | {"updates": 3}])
    assert metrics.has_learned
