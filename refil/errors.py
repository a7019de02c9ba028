"""The error that users see as one sentence instead of a traceback, and hints in it."""

import difflib
from collections.abc import Collection


class RefilError(ValueError):
    """A request that cannot be met; the message names the bad value and the choices."""


def closest(name: str, choices: Collection[str]) -> str | None:
    """Return the choice that looks most like a name, if one does; upper and lower case matter little."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name, choices, n=1) or difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower.get(close[0], close[0]) if close else None


def list_choices(name: str, choices: Collection[str]) -> str:
    """Return the end of an error about an unknown name: the closest choice, and all of them."""
    close = closest(name, choices)
    hint = f"did you mean {close!r}? " if close else ""
    return f"{hint}Available: {', '.join(choices)}"
