"""Multipliers of unit stats as task data: drawn for each task, team and unit type. Imports no JAX.

A draw depends on names and numbers alone, so that a task has the same multipliers in every set that contains it, and more draws
continue fewer ones.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

VERSION = 1


class Variation(NamedTuple):
    """By how much stats vary, and with how many draws per pair of armies."""

    largest: float  # multipliers are between 1 / (1 + largest) and 1 + largest
    draws: int
    seed: int


def draw(variation: Variation, task: str, stat: str, team: str, letter: str) -> Float[np.ndarray, " draws"]:
    """Return the multiplier of one stat of a team's units of one type in every draw; its logarithm is uniform."""
    text = f"refil variation {VERSION}: {variation.seed}: {task}: {stat}: {team}: {letter}"
    words = np.frombuffer(bytes.fromhex(hashlib.shake_256(text.encode()).hexdigest(4 * variation.draws)), "<u4")
    return (1.0 + variation.largest) ** (words / 2**31 - 1.0)


def draw_units(
    variation: Variation, task: str, stat: str, units: Sequence[tuple[str, str] | None]
) -> Float[np.ndarray, "draws units"]:
    """Return the multipliers of one stat of all units of a task, given the team and the letter of each; of empty slots, 1."""
    columns = [np.ones(variation.draws) if unit is None else draw(variation, task, stat, *unit) for unit in units]
    return np.stack(columns, axis=1).astype(np.float32)
