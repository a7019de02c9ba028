"""Progress: what is shown of training and of other long commands."""

import io
import os
import sys
import time

import pytest

from refil.storage import progress
from refil.storage.progress import Latest, ProgressBar, Speed, duration, estimate


def line(seed: int, steps: int, **values: float | None) -> dict:
    return {"seed": seed, "env_steps": steps, **values}


def test_the_latest_evaluation_of_every_seed_is_summarized():
    latest = Latest()
    latest.add([line(0, 10, loss=None, win_rate=0.2), line(1, 12, loss=None, win_rate=0.4)])
    latest.add([line(0, 20, loss=1.0), line(1, 21, loss=3.0)])
    assert str(latest) == "win rate 30% (20% to 40%, 2 seeds) at step 10  loss 2"
    latest.add([line(0, 30, loss=0.5, win_rate=0.6), line(1, 31, loss=0.5, win_rate=1.0)])
    assert str(latest) == "win rate 80% (60% to 100%, 2 seeds) at step 30  loss 0.5"


def test_a_single_seed_has_no_range():
    latest = Latest()
    assert str(latest) == ""
    latest.add([line(3, 10, loss=None, win_rate=0.25)])
    assert str(latest) == "win rate 25% at step 10"


def test_speed_is_that_of_the_last_minute():
    speed = Speed()
    assert speed.per_second is None
    for second in range(100):
        speed.add(float(second), 10 * second)
    assert speed.per_second == pytest.approx(10)
    for second in range(100, 200):
        speed.add(float(second), 1000 + 50 * (second - 100))
    assert speed.per_second == pytest.approx(50)
    assert 60 <= speed.seconds <= 62


def test_frequent_points_are_merged():
    speed = Speed()
    for count in range(1000):
        speed.add(count / 100, count)
    assert len(speed.points) <= 22
    assert speed.per_second == pytest.approx(100)


def test_the_estimate_of_a_run_of_hours_suggests_a_shorter_one():
    assert estimate(10_000_000, 500, 90.0) == [
        "About 31 hours for 10,000,000 steps per seed at 90 steps/s.",
        "With 200,000 steps a run takes about 37 minutes.",
    ]
    assert estimate(20_000, 500, 120.0) == ["About 3 minutes for 20,000 steps per seed at 120 steps/s."]
    assert estimate(20_000, 15_000, 120.0) == []  # less than a minute is left
    assert len(estimate(10_000_000, 300_000, 90.0)) == 1  # a resumed run has made more steps than that
    assert all(len(sentence) < 80 for sentence in estimate(1_000_000_000, 0, 12_345.6))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119.0, "119 s"), (121.0, "2 minutes"), (7199.0, "120 minutes"), (7300.0, "2 hours"), (2e5, "2 days")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_timer_of_a_phase_counts_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = ProgressBar()
    bar.phase("compiling play")
    for now[0], text in ((5.0, "5 s"), (185.0, "3 min 05 s")):
        assert bar.lines() == [f"compiling play  {text}"]


def test_without_a_terminal_there_is_a_line_per_phase_and_one_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.05)
    with ProgressBar(1000) as bar:
        bar.phase("compiling play")
        time.sleep(0.2)
        latest = Latest()
        latest.add([line(0, 90, win_rate=0.5)])
        bar.refresh(100, latest)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling play ..."
    assert lines[1] == "compiling play  0 s"
    assert "10%  100 of 1,000 steps  win rate 50% at step 90" in lines


def test_the_estimate_is_announced_once_learning_has_lasted(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar, latest = ProgressBar(1_000_000), Latest()
    bar.refresh(0, latest)
    now[0] = 20.0
    bar.refresh(100_000, latest)  # episodes without learning are faster
    latest.learning = True
    for second in range(21, 40):
        now[0] = float(second)
        bar.refresh(100_000 + 100 * (second - 21), latest)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("About", "With"))]
    assert said == [
        "About 3 hours for 1,000,000 steps per seed at 100 steps/s.",
        "With 200,000 steps a run takes about 33 minutes.",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_of_80_columns_shows_every_line_in_one_piece(monkeypatch, encoding):
    terminal = Terminal(encoding)
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in {"COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    bar, latest = ProgressBar(10_000_000), Latest()
    assert bar.is_live
    assert str(bar._render()).isascii() == (encoding == "ascii")
    latest.add([line(seed, 9_999_900, win_rate=1.0, loss=0.00123) for seed in range(24)])
    bar.speed.points.extend([(0.0, 0), (100.0, 123_400)])
    bar.refresh(9_999_999, latest)
    shown = str(bar._render())
    assert shown.isascii() == (encoding == "ascii")
    assert len(shown.splitlines()) == 2
    assert all(len(each) < 80 for each in shown.splitlines())
    with bar:
        bar.message("a message")
    assert "a message" in terminal.text()


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode()


def test_a_closed_or_unread_stderr_is_no_error(monkeypatch):
    reader, writer = os.pipe()
    unread = os.fdopen(writer, "w")
    os.close(reader)
    closed = io.StringIO()
    closed.close()
    for stream in (unread, closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressBar(10) as bar:
            bar.phase("compiling")
            bar.message("x" * 10_000)
            bar.refresh(5, Latest())
    os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # so that what is buffered can be discarded
    unread.close()


def test_a_count_within_a_phase_does_not_reset_its_timer():
    bar = ProgressBar()
    bar.text, bar.since = "playing task 1 of 9", time.monotonic() - 30
    bar.update("playing task 2 of 9")
    assert bar.lines() == ["playing task 2 of 9  30 s"]
