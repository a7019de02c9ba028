"""Multipliers of unit stats as task data: drawn for each task, team and unit type. Imports no JAX.

A draw depends on names and numbers alone, so that a task has the same multipliers in every set that contains it, and more draws
continue fewer ones.
"""

import hashlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

VERSION = 1
TEAMS = ("allies", "enemies")


class Variation(NamedTuple):
    """Which stats vary, by how much, and with how many draws per pair of armies."""

    stats: tuple[str, ...]
    largest: float  # multipliers are between 1 / (1 + largest) and 1 + largest
    draws: int
    seed: int


def draw(variation: Variation, task: str, stat: str, team: str, letter: str) -> Float[np.ndarray, " draws"]:
    """Return the multiplier of one stat of a team's units of one type in every draw; its logarithm is uniform."""
    text = f"refil variation {VERSION}: {variation.seed}: {task}: {stat}: {team}: {letter}"
    words = np.frombuffer(hashlib.shake_256(text.encode()).digest(4 * variation.draws), "<u4")
    return (1.0 + variation.largest) ** (words / 2**31 - 1.0)


def draw_tasks(
    variation: Variation,
    names: tuple[str, ...],
    armies: Int[np.ndarray, "tasks units"],
    letters: tuple[str, ...],
    num_allies: int,
) -> dict[str, Float[np.ndarray, "tasks draws units"]]:
    """Return the multipliers of the units in every draw of every task, by stat; those of empty slots are 1."""
    drawn = {stat: np.ones((len(names), variation.draws, armies.shape[1]), np.float32) for stat in variation.stats}
    for stat, multipliers in drawn.items():
        for row, (name, army) in enumerate(zip(names, armies, strict=True)):
            for team, slots in zip(TEAMS, (slice(num_allies), slice(num_allies, None)), strict=True):
                for number in set(army[slots].tolist()) - {-1}:
                    factors = draw(variation, name, stat, team, letters[number])
                    multipliers[row, :, slots] = np.where(army[slots] == number, factors[:, None], multipliers[row, :, slots])
    return drawn
