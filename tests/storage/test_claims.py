"""Claims on a folder that several machines share."""

import json
import os
import threading
import time

import pytest

from refil.errors import RefilError
from refil.storage import claims


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    for name, seconds in (("HEARTBEAT", 0.05), ("STALE", 0.5), ("WATCHED", 0.3)):
        monkeypatch.setattr(claims, name, seconds)


def left_behind(folder, machine="elsewhere", age=9.0, number=3, pid=None):
    path = folder / f"claim_{number}.json"
    path.write_text(json.dumps({"host": "far", "machine": machine, "pid": pid or os.getpid()}))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_a_claim_keeps_others_out_for_as_long_as_it_is_touched(tmp_path):
    with claims.claimed(tmp_path, alone=False):
        time.sleep(0.8)  # longer than it takes a claim to become stale
        with pytest.raises(RefilError, match=rf"another process is training in .*: process {os.getpid()} on "):
            claims.claimed(tmp_path, alone=False).__enter__()
        assert claims.holder(tmp_path) is not None
    assert not list(tmp_path.iterdir())
    with claims.claimed(tmp_path, alone=False):
        assert claims.holder(tmp_path) is not None


def test_a_stale_claim_of_another_machine_is_taken_over(tmp_path):
    left_behind(tmp_path)
    assert claims.holder(tmp_path) is None
    with claims.claimed(tmp_path, alone=True):
        assert [path.name for path in tmp_path.iterdir()] == ["claim_4.json"]


def test_a_claim_with_a_late_clock_is_not_taken_over_while_it_is_touched(tmp_path):
    path, stop = left_behind(tmp_path), threading.Event()

    def touch_with_a_late_clock():
        while not stop.wait(0.05):
            os.utime(path, (time.time() - 3600,) * 2)

    thread = threading.Thread(target=touch_with_a_late_clock)
    thread.start()
    with pytest.raises(RefilError, match="another process"):
        claims.claimed(tmp_path, alone=True).__enter__()
    stop.set()
    thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["claim_3.json"]


def test_a_claim_of_a_dead_process_is_free_at_once(tmp_path):
    left_behind(tmp_path, machine=claims._machine(), age=0.0)
    with pytest.raises(RefilError, match="another process"):  # this process is alive, so without a lock it may train
        claims.claimed(tmp_path, alone=False).__enter__()
    with claims.claimed(tmp_path, alone=True):
        pass
    left_behind(tmp_path, machine=claims._machine(), age=0.0, pid=2**22 + 1)  # more than there are
    assert claims.holder(tmp_path) is None


def test_one_of_many_processes_takes_a_stale_claim_over(tmp_path):
    left_behind(tmp_path)
    held, refused, barrier, done = [], [], threading.Barrier(8), threading.Event()

    def take():
        barrier.wait()
        try:
            with claims.claimed(tmp_path, alone=False):
                held.append(1)
                done.wait(2)
        except RefilError:
            refused.append(1)
        if len(held) + len(refused) == 8:
            done.set()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    assert len(held) + len(refused) == 8


def test_a_process_that_is_taken_over_notices(tmp_path):
    lost = threading.Event()
    with claims.claimed(tmp_path, alone=False, lost=lost.set):
        left_behind(tmp_path, number=2, age=0.0)
        assert lost.wait(5)


def test_a_fast_successor_is_not_disturbed_by_a_process_that_looked_too_early(tmp_path, monkeypatch):
    """A slow process finds a claim stale; before it acts, the holder ends and another process starts."""
    stale = left_behind(tmp_path)

    def meanwhile(claim, alone):
        stale.unlink()
        left_behind(tmp_path, number=1, age=0.0)
        return True

    monkeypatch.setattr(claims, "_is_abandoned", meanwhile)
    with pytest.raises(RefilError, match="another process"):
        claims.claimed(tmp_path, alone=False).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["claim_1.json"]


def test_a_folder_that_cannot_be_listed_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(RefilError, match=r"cannot read .*: Input/output error"):
        claims.newest(tmp_path)
