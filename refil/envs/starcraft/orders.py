"""Actions: which ones agents can choose, and the orders that they give to their units.

Actions are those of SMAC: 0 is no-op (dead agents only), 1 stop, 2 to 5 move north, south, east and west, and 6 onwards
targets the unit with tag 0, 1, ... Enemies have the first tags, allies the following ones.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim import targeting
from refil.envs.starcraft.sim.rules import MOVE_DISTANCE, SIGHT_RANGE, TARGET_RANGE
from refil.envs.starcraft.sim.state import NOBODY, Arena, Game, State
from refil.envs.starcraft.sim.unit import GROUND, UnitStats

NO_OP, STOP, NORTH, SOUTH, EAST, WEST, FIRST_TARGET = range(7)
DIRECTION_X = np.array([0, 0, 0, 0, 1, -1], np.float32)
DIRECTION_Y = np.array([0, 0, 1, -1, 0, 0], np.float32)
MOVES = ("north", "south", "east", "west")


def num_actions(game: Game) -> int:
    """Return the number of actions; allies can be targets only in games with a healer."""
    return FIRST_TARGET + (game.num_tags if game.table.any("heal_rate") else game.enemy_tags)


def action_names(game: Game) -> tuple[str, ...]:
    """Return the names of all actions."""
    targets = (f"target {tag}" for tag in range(num_actions(game) - FIRST_TARGET))
    return ("no-op", "stop", *MOVES, *targets)


def slot_of_tag(state: State, game: Game) -> Int[Array, " tags"]:
    """Return the slot of the unit with each tag, or -1."""
    tags = jnp.arange(game.num_tags)
    has_tag = state.tag == tags[:, None]
    return jnp.where(has_tag.any(axis=1), jnp.argmax(has_tag, axis=1), NOBODY)


def targeting_action(state: State, game: Game) -> Int[Array, " units"]:
    """Return the action that targets each unit, or -1 where no action does."""
    action = FIRST_TARGET + state.tag.astype(jnp.int32)
    return jnp.where((state.tag >= 0) & (action < num_actions(game)), action, -1)


def target_range(state: State, units: slice = slice(None)) -> Float[Array, "units 1"] | float:
    """Return how far away each unit's targets may be: `TARGET_RANGE` times its range multiplier, at most its sight."""
    if "range" not in state.multipliers:
        return TARGET_RANGE
    return jnp.minimum(TARGET_RANGE * state.multipliers["range"][units, None], SIGHT_RANGE)


def available_actions(state: State, stats: UnitStats, game: Game) -> Bool[Array, "agents actions"]:
    """Return which actions each agent can choose; targets are limited by `target_range`, whatever the weapon."""
    allies = slice(0, game.num_allies)
    alive = state.alive[allies, None]
    distance = jnp.sqrt((state.x[allies, None] - state.x) ** 2 + (state.y[allies, None] - state.y) ** 2)
    others = jnp.arange(game.num_units) != jnp.arange(game.num_allies)[:, None]
    on_ground = (stats.plane & GROUND) != 0  # healers can target all allies that do not only fly
    candidates = jnp.where(stats.heals[allies, None], ~game.is_enemy & others & on_ground, game.is_enemy)
    near = candidates & state.alive & (distance <= target_range(state, allies)) & alive
    slot = slot_of_tag(state, game)[: num_actions(game) - FIRST_TARGET]
    targets = near[:, jnp.maximum(slot, 0)] & (slot >= 0)
    return jnp.concatenate([~alive, alive, alive & _can_move(state, game), targets], axis=1)


def apply_actions(state: State, actions: Int[Array, " agents"], stats: UnitStats, game: Game) -> State:
    """Return the state in which the agents' units have the orders of these actions."""
    actions = jnp.pad(actions, (0, game.num_units - game.num_allies))
    has_target = actions >= FIRST_TARGET
    target = slot_of_tag(state, game)[jnp.clip(actions - FIRST_TARGET, 0, game.num_tags - 1)]
    invalid = has_target & ~(targeting.can_attack(target, stats, game) | targeting.can_heal(target, stats, game))
    keeps_order = game.is_enemy | ((invalid | (actions == NO_OP)) & game.rules.invalid_keeps_order)
    move = jnp.where(has_target, STOP, actions)
    distance = MOVE_DISTANCE * state.multipliers.get("speed", 1.0)  # faster units walk further in a step
    new = replace(
        state,
        target=jnp.where(has_target & ~invalid, target, NOBODY).astype(state.target.dtype),
        attack_moving=jnp.zeros_like(state.attack_moving),
        moving=(move >= NORTH),
        goal_x=state.x + distance * jnp.asarray(DIRECTION_X)[move],
        goal_y=state.y + distance * jnp.asarray(DIRECTION_Y)[move],
    )
    changed = ("target", "attack_moving", "moving", "goal_x", "goal_y")
    return replace(state, **{name: jnp.where(keeps_order, getattr(state, name), getattr(new, name)) for name in changed})


def _can_move(state: State, game: Game) -> Bool[Array, "agents moves"]:
    # Coordinates are truncated toward zero, as in SMAC: the southern and western edges of a whole map never forbid a move.
    x, y, arena = state.x[: game.num_allies, None], state.y[: game.num_allies, None], game.arena
    east, north = jnp.asarray(DIRECTION_X[NORTH:]), jnp.asarray(DIRECTION_Y[NORTH:])
    return _is_walkable(jnp.trunc(x + east), jnp.trunc(y + north), arena)


def _is_walkable(x: Array, y: Array, arena: Arena) -> Bool[Array, "..."]:
    return (x >= arena.west) & (x < arena.east) & (y >= arena.south) & (y < arena.north)
