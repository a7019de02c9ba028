"""Training from the command line: when it stops, and how JAX is configured."""

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from refil import hardware
from refil.cli import _signals
from refil.cli._advice import error_text
from refil.cli._training import graceful_shutdown, hint, run_training
from refil.envs import group_matching
from refil.errors import RefilError
from refil.hosted import LostError
from refil.storage import run_dir
from refil.training import config, flags, trainer
from tests.tiny_runs import small

SMALL = ["group_matching", "--precision", "tf32", "--deterministic"]


def test_a_run_whose_game_fails_says_how_to_continue_on_the_command_line(monkeypatch, tmp_path):
    run = run_dir.create(tmp_path / "run", small())

    def fail(*_, **__):
        raise LostError(f"an episode was lost. {trainer.SAVED}", run.path)

    monkeypatch.setattr(trainer, "train", fail)
    with pytest.raises(RefilError) as caught:
        run_training(run.config, run, resume=False)
    advice = f"Training until then is saved; 'refil train --resume {run.path}' continues it"
    assert error_text(caught.value) == f"an episode was lost. {advice}"


def test_on_policy_settings_for_a_gpu_come_with_advice_on_a_cpu(monkeypatch):
    large = config.default("3-8sz", "refil_pqn")
    assert "--envs 64 --minibatches 4" in hint(large)
    assert hint(large.with_options(envs=64, minibatches=4)) is None
    assert hint(config.default("3-8sz", "refil").with_options(envs=1024)) is None
    monkeypatch.setattr(hardware, "on_gpu", lambda: True)
    assert hint(large) is None


class Stopped:
    """Stands for the end of the process."""

    def __init__(self, monkeypatch) -> None:
        self.texts = []
        monkeypatch.setattr(_signals, "stop", self.texts.append)


def send(number: int, until: Callable[[], object]) -> None:
    os.kill(os.getpid(), number)
    deadline = time.monotonic() + 10
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert until()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_stops_at_once(monkeypatch, number):
    messages, stopped, before = [], Stopped(monkeypatch), signal.getsignal(number)
    with graceful_shutdown(None, messages.append) as should_stop:
        assert not should_stop()
        send(number, until=should_stop)
        assert "stop without saving" in messages[0]
        assert not stopped.texts
        send(number, until=lambda: stopped.texts)
        assert "without saving" in stopped.texts[0]
    assert signal.getsignal(number) is before


def test_a_terminal_that_hangs_up_several_times_asks_to_stop_once(monkeypatch):
    messages, stopped = [], Stopped(monkeypatch)
    with graceful_shutdown(None, messages.append) as should_stop:
        assert not should_stop()
        send(signal.SIGHUP, until=should_stop)
        send(signal.SIGHUP, until=should_stop)
        send(signal.SIGTERM, until=should_stop)
    assert len(messages) == 1
    assert not stopped.texts


def test_a_signal_while_compiling_stops_at_once_and_says_how_to_start_again(monkeypatch):
    stopped = Stopped(monkeypatch)
    with graceful_shutdown(None, print, "start again with: refil train --resume run"):
        send(signal.SIGINT, until=lambda: stopped.texts)
    assert stopped.texts == ["stopped before the first step; start again with: refil train --resume run"]


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
    monkeypatch.setattr(flags, "configure", lambda *given: events.append(given))
    monkeypatch.setattr(group_matching, "build", lambda options: events.append("built") or sys.exit(3))
    assert refil(*arguments)[2] == 2  # user code that exits is refused
    assert events == [("tf32", True, "auto"), "built"]


@pytest.mark.parametrize("arguments", [["evaluate"], ["evaluate", "--by-task"], ["watch", "--html", "x.html"]])
def test_jax_is_configured_as_the_run_was(refil, monkeypatch, tmp_path, arguments):
    events = []
    path = run_dir.create(tmp_path / "run", small(precision="bf16")).path
    (path / "model_seed_0.safetensors").write_text("")
    monkeypatch.setattr(flags, "configure", lambda *given: events.append(given))
    monkeypatch.setattr(group_matching, "build", lambda options: events.append("built") or sys.exit(3))
    assert refil(arguments[0], str(path), *arguments[1:])[2] == 2  # user code that exits is refused
    assert events == [("bf16", False, "auto"), "built"]
