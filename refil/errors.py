"""The error that users see as one sentence instead of a traceback: hints, and sentences for errors in a user's own code."""

import difflib
import os
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager

LIBRARIES = (os.path.dirname(os.path.abspath(__file__)), sysconfig.get_paths()["stdlib"], "site-packages", "<frozen")
MAX_MESSAGE = 300  # characters of a quoted message


class RefilError(ValueError):
    """A request that cannot be met; the message names the bad value and the choices.

    `run` is the folder of the run that the message gives advice about, if it does.
    """

    def __init__(self, message: str = "", run: object = None) -> None:
        super().__init__(message)
        self.run = run


def closest(name: str, choices: Collection[str]) -> str | None:
    """Return the choice that looks most like a name, if one does; upper and lower case matter little."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name, choices, n=1) or difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower.get(close[0], close[0]) if close else None


def list_choices(name: str, choices: Collection[str], meant: str | None = None) -> str:
    """Return the end of an error about an unknown name: the choice that is meant or the closest one, and all of them."""
    close = meant or closest(str(name), choices)
    hint = f"did you mean {close!r}? Available" if close else "available"
    return f"{hint}: {', '.join(choices)}"


def describe(value: object) -> str:
    """Return a value as errors show it: itself if it is short, otherwise its type."""
    if value is None or isinstance(value, (str, int, float, os.PathLike, type)):
        return repr(value)
    return f"{'an' if type(value).__name__[0] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"


@contextmanager
def needs_extra(what: str, extra: str, *libraries: str) -> Iterator[None]:
    """Say which extra to install where one of these libraries is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in libraries:
            raise
        raise RefilError(f"{what} needs the extra {extra!r}: pip install 'refil[{extra}]'") from error


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turn exceptions of a user's own code into a `RefilError` that names the function, the file and the line.

    `what` names the call, such as "mine.py: step()". The original exception is chained as the cause.
    """
    try:
        yield
    except RefilError:
        raise
    except (Exception, SystemExit) as error:
        raise RefilError(failure(what, error)) from error


def failure(what: str, error: Exception | SystemExit) -> str:
    """Return a sentence about an exception: the place in the user's own code, its type and its message."""
    return str(error) if isinstance(error, RefilError) else f"{what} failed{_place(error)}: {_message(error)}"


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(library in frame.filename for library in LIBRARIES)]
    if not own:
        return ""
    frame = own[-1]
    inside = "" if frame.name == "<module>" else f" in {frame.name}()"
    return f" at {frame.filename}:{frame.lineno}{inside}"


def _message(error: BaseException) -> str:
    """Return the type and the first line of the message, with the line after it where the first one ends in a colon."""
    if isinstance(error, SystemExit):
        return f"it ends the process (SystemExit: {error.code}); a plug-in raises an error instead"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    text = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
