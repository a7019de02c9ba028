"""Training from the command line: when it stops, and how JAX is configured."""

import os
import signal
import sys

import pytest

from refil.cli._training import graceful_shutdown
from refil.envs import group_matching
from refil.storage import run_dir
from refil.training import flags
from tests.tiny_runs import small

SMALL = ["group_matching", "--precision", "tf32", "--deterministic"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_interrupts(number):
    messages, before = [], signal.getsignal(number)
    with graceful_shutdown(None, messages.append) as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), number)
        assert should_stop()
        assert "stop without saving" in messages[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_the_time_limit_asks_to_stop():
    with graceful_shutdown(0.0, print) as should_stop:
        assert should_stop()
    with graceful_shutdown(1.0, print) as should_stop:
        assert not should_stop()


@pytest.mark.parametrize(
    "arguments",
    [["train", *SMALL], ["bench", *SMALL], ["bench", *SMALL, "--random"]],
    ids=["train", "bench", "bench --random"],
)
def test_jax_is_configured_before_anything_is_built(refil, monkeypatch, tmp_path, arguments):
    events = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flags, "configure", lambda precision, deterministic: events.append((precision, deterministic)))
    monkeypatch.setattr(group_matching, "build", lambda options: events.append("built") or sys.exit(3))
    assert refil(*arguments)[2] == 3
    assert events == [("tf32", True), "built"]


@pytest.mark.parametrize("arguments", [["evaluate"], ["evaluate", "--by-task"], ["watch", "--html", "x.html"]])
def test_jax_is_configured_as_the_run_was(refil, monkeypatch, tmp_path, arguments):
    events = []
    path = run_dir.create(tmp_path / "run", small(precision="bf16")).path
    (path / "model_seed_0.safetensors").write_text("")
    monkeypatch.setattr(flags, "configure", lambda precision, deterministic: events.append((precision, deterministic)))
    monkeypatch.setattr(group_matching, "build", lambda options: events.append("built") or sys.exit(3))
    assert refil(arguments[0], str(path), *arguments[1:])[2] == 3
    assert events == [("bf16", False), "built"]
