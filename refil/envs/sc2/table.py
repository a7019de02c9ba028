"""The game's raw unit table as the simulator's state: which unit has which slot, and what each observation says about it.

States are the simulator's `State` with NumPy arrays, `[units]` for one battle and `[battles, units]` for many.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Int, UInt64

from refil.envs.sc2.records import ALLY, ENEMY, PASSIVE_IDS, GameRefusedError, Placement, Units
from refil.envs.starcraft.sim.state import NOBODY, Arena, Game, State
from refil.errors import RefilError

NO_TAG = 0  # tag in empty slots
SEEN = ("x", "y", "health", "shield", "energy", "cooldown")  # what an observation says about living units
ENDS = {"health": 0, "shield": 0, "energy": 0, "cooldown": 0, "target": NOBODY, "attack_moving": False, "moving": False}


def with_fields(state: State, **changes: Any) -> State:
    """Return a state with some arrays replaced; unlike `dataclasses.replace` for arrays of NumPy too."""
    names = list(State.__dataclass_fields__)
    values = [changes.get(name, getattr(state, name)) for name in names]
    return jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(values))


def type_id(unit_type: int, owner: int, game: Game) -> int:
    """Return the game's ID of a unit type of the simulator: that of the map's passive copy for allies."""
    name, unit = game.table.names[unit_type], game.table.units[unit_type]
    if owner == ENEMY:
        return unit.type_id
    if name not in PASSIVE_IDS:
        raise RefilError(f"the game's map has no {name} for allies; available: {', '.join(PASSIVE_IDS)}")
    return PASSIVE_IDS[name]


def placements(state: State, x: np.ndarray, y: np.ndarray, game: Game) -> list[Placement]:
    """Return the units to spawn for a first state of the simulator, at these points instead of its positions."""
    found = []
    for slot in np.flatnonzero(state.unit_type >= 0).tolist():
        owner = ALLY if slot < game.num_allies else ENEMY
        found.append(Placement(type_id(int(state.unit_type[slot]), owner, game), owner, float(x[slot]), float(y[slot])))
    return found


def assign_slots(state: State, units: Units, game: Game) -> UInt64[np.ndarray, " units"]:
    """Return the tag of the unit in each slot: those of one type and team have its slots from west to east."""
    tags = np.full(game.num_units, NO_TAG, np.uint64)
    slots = np.flatnonzero(state.unit_type >= 0).tolist()
    keys = [(ALLY if slot < game.num_allies else ENEMY, int(state.unit_type[slot])) for slot in slots]
    wanted: dict[tuple[int, int], list[int]] = {}
    for slot, (owner, unit_type) in zip(slots, keys, strict=True):
        wanted.setdefault((owner, type_id(unit_type, owner, game)), []).append(slot)
    for (owner, kind), block in wanted.items():
        rows = np.flatnonzero((units.owner == owner) & (units.type_id == kind))
        if len(rows) != len(block):
            raise GameRefusedError(f"the game has {len(rows)} units of type {kind} of player {owner} instead of {len(block)}")
        tags[block] = units.tag[rows[np.lexsort((units.y[rows], units.x[rows]))]]
    return tags


def read(state: State, units: Units, tags: UInt64[np.ndarray, " units"]) -> State:
    """Return the state with what the game says about its units; dead ones keep the position where they were last seen."""
    row = rows_of(units, tags)
    alive = (row >= 0) & (units.health[row] > 0) if len(units) else np.zeros(len(tags), bool)
    changes = {name: np.array(getattr(state, name)) for name in (*SEEN, *ENDS)}
    for name in SEEN:
        changes[name][alive] = getattr(units, name)[row[alive]]
    for name, end in ENDS.items():
        changes[name][~alive] = end
    return with_fields(state, **changes)


def rows_of(units: Units, tags: UInt64[np.ndarray, " units"]) -> Int[np.ndarray, " units"]:
    """Return the row of each unit in the game's table, or -1 if it is not there."""
    rows = {tag: row for row, tag in enumerate(units.tag.tolist())}
    return np.array([rows.get(tag, -1) for tag in tags.tolist()])


def blocked(pathing: Bool[np.ndarray, "x y"], arena: Arena) -> list[tuple[int, int]]:
    """Return the cells of the map that cannot be walked on although they lie in the simulator's arena."""
    x, y = np.meshgrid(*map(np.arange, pathing.shape), indexing="ij")
    inside = (x >= arena.west) & (x < arena.east) & (y >= arena.south) & (y < arena.north)
    return [(column, row) for column, row in np.argwhere(inside & ~pathing).tolist()]


def one(states: State, number: int) -> State:
    """Return the state of one of many battles."""
    return jax.tree.map(lambda leaf: leaf[number], states)


def stack(states: list[State]) -> State:
    """Return the states of many battles as one."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)
