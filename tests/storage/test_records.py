"""Lines of metrics and wins by task, intact and damaged."""

import json
from pathlib import Path

import pytest

from refil.errors import RefilError
from refil.storage import records

METRICS, BY_TASK = Path("run/metrics.jsonl"), Path("run/by_task.json")
GOOD = '{"seed": 0, "env_steps": 5, "win_rate": 0.5, "loss": null}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Expecting value at column 1"),
        ('{"seed": 0', "Expecting ',' delimiter at column 11"),
        ("[1]", r"metrics should be an object, not \[1\]"),
        ('{"env_steps": 5}', "there is no 'seed'"),
        ('{"seed": 0}', "there is no 'env_steps'"),
        ('{"seed": "0", "env_steps": 5}', 'seed should be a whole number of 0 or more, not "0"'),
        ('{"seed": 0, "env_steps": -5}', "env_steps should be a whole number of 0 or more, not -5"),
        ('{"seed": 0, "env_steps": 5, "win_rate": 1.5}', "win_rate should be from 0 to 1, not 1.5"),
        ('{"seed": 0, "env_steps": 5, "win_rate": NaN}', "win_rate should be from 0 to 1, not NaN"),
        ('{"seed": 0, "env_steps": 5, "win_rate": null}', "win_rate should be from 0 to 1, not null"),
        ('{"seed": 0, "env_steps": 5, "loss": "low"}', 'loss should be a number, not "low"'),
        ('{"seed": 0, "env_steps": 5, "loss": ' + "9" * 5000 + "}", "Exceeds the limit"),
        ('{"seed": 0, "env_steps": 5, "loss": ' + "[" * 100_000, "recursion"),
    ],
    ids=lambda text: text[:50],
)
def test_a_damaged_line_is_named_with_its_file_and_number(line, message):
    with pytest.raises(RefilError, match=rf"run/metrics.jsonl, line 2: .*{message}"):
        records.parse_metrics(f"{GOOD}\n{line}\n{GOOD}\n".encode(), METRICS)


def test_text_that_is_not_utf_8_is_named_with_its_line():
    with pytest.raises(RefilError, match=r"metrics.jsonl, line 1: .*utf-8"):
        records.parse_metrics(b'{"seed\xff": 0}\n', METRICS)


def test_a_line_without_its_end_is_ignored():
    assert records.parse_metrics(f"{GOOD}\n{GOOD[:20]}".encode(), METRICS) == [json.loads(GOOD)]
    assert records.parse_metrics(b"", METRICS) == []


def test_asking_for_a_name_that_a_line_lacks_says_where():
    (line,) = records.parse_metrics(f"{GOOD}\n".encode(), METRICS)
    assert line.get("updates") is None
    with pytest.raises(RefilError, match=r"run/metrics.jsonl, line 1: there is no 'updates'"):
        line["updates"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value at column 1"),
        ("[]", r"there should be an object, not \[\]"),
        ('{"won": {"a": [1]}}', "there should be a number of 'episodes'"),
        ('{"episodes": 0, "won": {"a": [0]}}', "there should be a number of 'episodes'"),
        ('{"episodes": 4, "won": [1]}', "a list of 'won' episodes per task"),
        ('{"episodes": 4, "won": {"a": [5]}}', r"task 'a' should have numbers of won episodes from 0 to 4, not \[5\]"),
        ('{"episodes": 4, "won": {"a": [-1]}}', r"from 0 to 4, not \[-1\]"),
        ('{"episodes": 4, "won": {"a": [NaN]}}', r"from 0 to 4, not \[NaN\]"),
        ('{"episodes": 4, "won": {"a": [1], "b": [1, 2]}}', "different numbers of seeds"),
        ('{"episodes": 4, "won": {"a": [1]}, "models": 5}', "the checksum does not match"),
        ('{"episodes": 4, "won": {"a": [1]}, "models": {}}', "the checksum does not match"),
    ],
)
def test_damaged_wins_by_task_are_refused(text, message):
    with pytest.raises(RefilError, match=rf"run/by_task.json, line 1: .*{message}"):
        records.parse_by_task(text.encode(), BY_TASK)


def test_wins_by_task_are_read_back_and_no_digit_can_change():
    text = records.by_task_text({"episodes": 4, "won": {"a": [1, 2]}, "models": {"x": "1"}})
    assert records.parse_by_task(text.encode(), BY_TASK) == ({"a": [0.25, 0.5]}, {"x": "1"})
    with pytest.raises(RefilError, match="the checksum does not match"):
        records.parse_by_task(text.replace("[1, 2]", "[1, 3]").encode(), BY_TASK)


def test_wins_by_task_of_earlier_versions_are_read():
    assert records.parse_by_task(b'{"episodes": 4, "won": {"a": [1]}}', BY_TASK) == ({"a": [0.25]}, None)
