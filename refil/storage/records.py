"""Records of a run, lines of metrics and wins by task, checked when they are read: errors name the file and the line."""

import json
import zlib
from pathlib import Path
from typing import Any

from refil.errors import RefilError

REQUIRED = ("seed", "env_steps")  # names that every line of metrics has
COUNTS = (*REQUIRED, "episodes", "updates")
MAX_INT = 2**63  # larger integers are refused, because arrays cannot hold them


class Line(dict[str, Any]):
    """A line of metrics; to ask it for a name that it lacks is an error that says where the line is."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise RefilError(f"{self.where}: there is no {name!r}")


def parse_json(text: str | bytes, path: Path, line: int = 1) -> Any:
    """Parse JSON that starts in a line of a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RefilError(f"{path}, line {line + error.lineno - 1}: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, an integer of too many digits, or too deep
        raise RefilError(f"{path}, line {line}: {error}") from error


def parse_metrics(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Return all complete lines of metrics; a line cut off by a crash is ignored."""
    complete = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
    return [_parse_line(text, path, number) for number, text in enumerate(complete, start=1)]


def by_task_text(stored: dict[str, Any]) -> str:
    """Return the text of `by_task.json`, with a checksum."""
    return json.dumps(stored | {"checksum": _checksum(stored)}) + "\n"


def parse_by_task(content: bytes, path: Path) -> tuple[dict[str, list[float]], dict[str, str] | None]:
    """Return the win rates on each task, one per seed, and the checksums of the models that played (None if not stored)."""
    stored = parse_json(content, path)
    if not isinstance(stored, dict):
        raise RefilError(f"{path}, line 1: there should be an object, not {_show(stored)}")
    checksum = stored.pop("checksum", None)
    episodes, won, models = (stored.get(name) for name in ("episodes", "won", "models"))
    if not isinstance(episodes, int) or not is_count(episodes) or episodes == 0 or not isinstance(won, dict) or not won:
        raise RefilError(f"{path}, line 1: there should be a number of 'episodes' and a list of 'won' episodes per task")
    lengths = {task: _check_wins(counts, episodes, f"{path}, line 1: task {task!r}") for task, counts in won.items()}
    if len(set(lengths.values())) > 1:
        raise RefilError(f"{path}, line 1: tasks have different numbers of seeds: {_show(lengths)}")
    # Version 0.2.0 stored neither models nor a checksum.
    if not isinstance(models, dict | None) or checksum != (None if models is None else _checksum(stored)):
        raise RefilError(f"{path}, line 1: the checksum does not match the content")
    return {task: [each / episodes for each in counts] for task, counts in won.items()}, models


def is_count(value: Any) -> bool:
    """Return whether a JSON value is a whole number of 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_INT


def _check_wins(counts: Any, episodes: int, where: str) -> int:
    if not isinstance(counts, list) or not counts or not all(is_count(each) and each <= episodes for each in counts):
        raise RefilError(f"{where} should have numbers of won episodes from 0 to {episodes}, not {_show(counts)}")
    return len(counts)


def _checksum(stored: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(stored, sort_keys=True).encode()):08x}"


def _parse_line(text: bytes, path: Path, number: int) -> Line:
    values, where = parse_json(text, path, number), f"{path}, line {number}"
    if not isinstance(values, dict):
        raise RefilError(f"{where}: metrics should be an object, not {_show(values)}")
    line = Line(values, where)
    for name in REQUIRED:
        line[name]  # raises if it is missing
    for name, value in line.items():
        if name in COUNTS and not is_count(value):
            raise RefilError(f"{where}: {name} should be a whole number of 0 or more, not {_show(value)}")
        if name == "win_rate" and not (_is_number(value) and 0 <= value <= 1):
            raise RefilError(f"{where}: win_rate should be from 0 to 1, not {_show(value)}")
        if value is not None and not _is_number(value):
            raise RefilError(f"{where}: {name} should be a number, not {_show(value)}")
    return line


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_INT)


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
