"""Inspection: what trained teams see, attend to and expect in a battle of the lab, in the slots of the lab."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import State
from refil.lab import field, mirror
from refil.lab.battle import Battle, BattleRecord
from refil.lab.commanders import Trained
from refil.training import devices
from refil.types import Trajectory
from refil.viewer.details import Details, Inspection, compile_inspection, details

Encoded = dict[str, Any]  # what `Details.encode` returns


@dataclass(frozen=True)
class BattleDetails:
    """The details of a battle with one or two trained teams, for a page."""

    sides: tuple[Encoded, ...]

    def encode(self) -> Encoded:
        """Return the details of both sides as if they were one team's: its agents are those of both."""
        first, *others = self.sides
        for other in others:
            first = _joined(first, other)
        return first


def inspect(battle: Battle, played: BattleRecord) -> BattleDetails | None:
    """Return the details of the sides that trained teams command, or None if there are none."""
    sides = []
    for number, commander in enumerate((battle.allies, battle.enemies)):
        if isinstance(commander, Trained):
            found = _details(commander, battle.size, played, number)
            slots = commander.lab_slots(battle.size)
            sides.append(_in_lab_slots(found.encode(), [_swapped(slot, battle.size, number) for slot in slots], battle.size))
    return BattleDetails(tuple(sides)) if sides else None


def _details(commander: Trained, size: int, played: BattleRecord, side: int) -> Details:
    """Compute details with a fixed number of steps, so that battles of all lengths share a program."""
    observe, inspection = _programs(commander, size, side)
    actions = played.actions[side]
    assert actions is not None
    steps, times = np.arange(field.LIMIT), np.minimum(np.arange(field.LIMIT + 1), played.length)
    trajectory = {
        "states": observe(jax.tree.map(lambda leaf: leaf[times], played.states)),
        "actions": _padded(actions.astype(np.int32)),
        "rewards": np.zeros(field.LIMIT, np.float32),
        "terminated": steps == played.length - 1,
        "valid": steps < played.length,
        "won": np.zeros((), bool),
        "task": np.zeros((), np.int32),
        "key": np.zeros(2, np.uint32),
    }
    batch = Trajectory(**jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], trajectory))
    (found,) = details(commander.lab_team.env, commander.team.model, batch, inspection)
    return found


@cache
def _programs(commander: Trained, size: int, side: int) -> tuple[Any, Inspection]:
    def observe(states: State) -> State:
        return jax.vmap(lambda state: commander.observe(mirror.mirror(state) if side else state))(states)

    return devices.jit_quickly(observe), compile_inspection(commander.lab_team.env)


def _padded(actions: Int[np.ndarray, "steps agents"]) -> Int[np.ndarray, "limit agents"]:
    return np.pad(actions, ((0, field.LIMIT - len(actions)), (0, 0)))


def _swapped(slot: int, size: int, side: int) -> int:
    return (slot + side * size) % (2 * size)


def _in_lab_slots(encoded: Encoded, slots: list[int], size: int) -> Encoded:
    """Return encoded details with the slots of the lab instead of those of the team's environment; `slots` has one for each."""

    def agent(row: list[Any] | None) -> list[Any] | None:
        if row is None:
            return None
        action, target, q, seen = row
        return [action, target if target < 0 else slots[target], q, [[slots[entity], *weights] for entity, *weights in seen]]

    def spread(values: list[Any], empty: Any) -> list[Any]:
        found = [empty] * (2 * size)
        for slot, value in zip(slots, values, strict=False):
            found[slot] = value
        return found

    return encoded | {
        "groups": [spread(groups, 0) for groups in encoded["groups"]],
        "aimed": [spread(row, -1) for row in encoded["aimed"]],
        "steps": [spread([agent(row) for row in step], None) for step in encoded["steps"]],
        "every": TICKS_PER_STEP,
    }


def _joined(first: Encoded, second: Encoded) -> Encoded:
    """Return the details of two teams; the actions of the second are numbered after those of the first."""
    shift = len(first["actions"])
    heads = min(first["heads"], second["heads"])

    def fewer_heads(row: list[Any] | None) -> list[Any] | None:
        return None if row is None else [*row[:3], [seen[: 1 + heads] for seen in row[3]]]

    def shifted(row: list[Any] | None) -> list[Any] | None:
        if row is None:
            return None
        action, target, q, seen = row
        return [action + shift, target, [[choice + shift, *values] for choice, *values in q], seen]

    def aimed(row: list[int]) -> list[int]:
        return [action if action < 0 else action + shift for action in row]

    pairs = [zip(*rows, strict=True) for rows in zip(first["steps"], second["steps"], strict=True)]
    return first | {
        "actions": [*first["actions"], *second["actions"]],
        "heads": heads,
        "aimed": [[*one, *aimed(other)] for one, other in zip(first["aimed"], second["aimed"], strict=True)],
        "steps": [[fewer_heads(one or shifted(other)) for one, other in rows] for rows in pairs],
    }
