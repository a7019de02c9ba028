"""Commands to the game: those of actions, as the authors' environment gives them, and those of a script's orders."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int, UInt64

from refil.envs.sc2.records import ATTACK, HEAL, MOVE, STOP, Command
from refil.envs.starcraft import orders
from refil.envs.starcraft.sim.rules import MOVE_DISTANCE
from refil.envs.starcraft.sim.state import NOBODY, Game, State

Tags = UInt64[np.ndarray, " units"]


def from_actions(state: State, actions: Int[np.ndarray, " agents"], tags: Tags, game: Game) -> list[Command]:
    """Return the commands of the living agents' actions."""
    alive = np.flatnonzero(state.health[: game.num_allies] > 0)
    found = (_of_action(state, agent, int(actions[agent]), tags, game) for agent in alive.tolist())
    return [command for command in found if command]


def _of_action(state: State, agent: int, action: int, tags: Tags, game: Game) -> Command | None:
    tag = int(tags[agent])
    if action == orders.NO_OP:
        return None
    if action == orders.STOP:
        return Command(STOP, (tag,))
    if action < orders.FIRST_TARGET:
        x = state.x[agent] + MOVE_DISTANCE * orders.DIRECTION_X[action]
        y = state.y[agent] + MOVE_DISTANCE * orders.DIRECTION_Y[action]
        return Command(MOVE, (tag,), position=(float(x), float(y)))
    (slots,) = np.nonzero(state.tag == action - orders.FIRST_TARGET)
    return _aimed(state, agent, int(slots[0]), tags, game) if len(slots) else None


def from_orders(before: State, ordered: State, slots: range, tags: Tags, game: Game) -> list[Command]:
    """Return the commands that give living units in these slots the orders of a state; an attack-move is given only once."""
    living = [slot for slot in slots if ordered.health[slot] > 0]
    found = (_of_order(before, ordered, slot, tags, game) for slot in living)
    return [command for command in found if command]


def joined(found: list[Command]) -> list[Command]:
    """Return the commands with one for all units that have the same order, as the authors' environment orders its enemies."""
    tags: dict[Command, tuple[int, ...]] = {}
    for command in found:
        key = replace(command, tags=())
        tags[key] = tags.get(key, ()) + command.tags
    return [replace(key, tags=each) for key, each in tags.items()]


def _of_order(before: State, ordered: State, slot: int, tags: Tags, game: Game) -> Command | None:
    tag, goal = int(tags[slot]), (float(ordered.goal_x[slot]), float(ordered.goal_y[slot]))
    if ordered.attack_moving[slot]:
        same = before.attack_moving[slot] and goal == (float(before.goal_x[slot]), float(before.goal_y[slot]))
        return None if same else Command(ATTACK, (tag,), position=goal)
    if ordered.target[slot] != NOBODY:
        return _aimed(ordered, slot, int(ordered.target[slot]), tags, game)
    return Command(MOVE, (tag,), position=goal) if ordered.moving[slot] else Command(STOP, (tag,))


def _aimed(state: State, slot: int, target: int, tags: Tags, game: Game) -> Command:
    heals = game.table.units[int(state.unit_type[slot])].heal_rate > 0
    return Command(HEAL if heals else ATTACK, (int(tags[slot]),), target_tag=int(tags[target]))
