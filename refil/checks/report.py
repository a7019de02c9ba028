"""Results of checks, one after another."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from refil.errors import failure

Status = Literal["ok", "FAILED", "not applicable"]


class CheckFailed(AssertionError):
    """A property that does not hold; the message is a sentence with numbers."""


class NotApplicable(Exception):
    """A property that cannot be checked here; the message says why."""


@dataclass(frozen=True)
class Check:
    """A property by its name, and the function that checks it and returns a detail to show."""

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Result:
    """The result of one check."""

    name: str
    status: Status
    detail: str


def run_checks(checks: Iterable[Check], before: Callable[[str], None] = lambda name: None) -> Iterator[Result]:
    """Run checks in turn; `before` is called with the name of each. An exception in a user's code is a failure."""
    for check in checks:
        before(check.name)
        yield _run(check)


def _run(check: Check) -> Result:
    try:
        return Result(check.name, "ok", check.run())
    except NotApplicable as reason:
        return Result(check.name, "not applicable", str(reason))
    except CheckFailed as error:
        return Result(check.name, "FAILED", str(error))
    except Exception as error:
        return Result(check.name, "FAILED", failure("the check", error))


def largest_difference(one: Any, other: Any) -> float:
    """Return the largest absolute difference of two pytrees; infinite if a number is not finite in one of them."""
    differences = jax.tree.map(_difference, one, other)
    return max(jax.tree.leaves(differences), default=0.0)


def _difference(one: Any, other: Any) -> float:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    with np.errstate(invalid="ignore"):
        found = np.where(one == other, 0.0, np.abs(one - other))
    return float(np.where(np.isfinite(found), found, np.inf).max(initial=0.0))


def relative_difference(one: Any, other: Any) -> float:
    """Return the norm of the difference of two pytrees relative to the norm of the first, infinite if it is not finite."""
    pairs = [
        (np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel())
        for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True)
    ]
    ours, theirs = (np.concatenate(each) for each in zip(*pairs, strict=True))
    found = np.linalg.norm(ours - theirs) / max(float(np.linalg.norm(ours)), 1e-6)
    return float(found) if np.isfinite(found) else float("inf")
