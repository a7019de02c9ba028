"""Initial states: two armies on opposite sides of the map, units of each type close together."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.rules import SHIELD_DELAY
from refil.envs.starcraft.sim.state import NOBODY, Arena, Game, State
from refil.envs.starcraft.sim.unit import Multipliers, scale

OFFSET = 1.0  # the units of one type are moved off their army's center by up to this much, along x and along y


def idle_state(
    unit_type: Int[Array, " units"],
    x: Float[Array, " units"],
    y: Float[Array, " units"],
    tag: Int[Array, " units"],
    game: Game,
    multipliers: Multipliers | None = None,
) -> State:
    """Return undamaged units at these positions, without orders."""
    stats = scale(game.table[unit_type], multipliers or {})
    zeros, nobody = jnp.zeros_like(x), jnp.full(unit_type.shape, NOBODY, jnp.int16)
    false = jnp.zeros(unit_type.shape, bool)
    return State(
        unit_type=unit_type.astype(jnp.int8),
        tag=tag.astype(jnp.int16),
        x=x,
        y=y,
        health=stats.max_health,
        shield=stats.max_shield,
        energy=stats.start_energy,
        cooldown=zeros,
        current_speed=zeros,
        turn_side=jnp.zeros(unit_type.shape, jnp.int8),
        ticks_since_hit=jnp.full(unit_type.shape, SHIELD_DELAY, jnp.int16),
        target=nobody,
        attacker=nobody,
        attack_moving=false,
        moving=false,
        goal_x=x,
        goal_y=y,
        time=jnp.zeros((), jnp.int32),
        multipliers=multipliers or {},
    )


def spawn(unit_type: Int[Array, " units"], key: PRNGKeyArray, game: Game, multipliers: Multipliers | None = None) -> State:
    """Return the initial state of a battle between these units, with the enemy attack-moving to the allies."""
    position_key, tag_key = jax.random.split(key)
    x, y = _positions(unit_type, position_key, game)
    state = idle_state(unit_type, x, y, _tags(unit_type, tag_key, game), game, multipliers)
    return attack_move(state, game, game.is_enemy)


def attack_move(state: State, game: Game, team: Bool[Array, " units"]) -> State:
    """Order the units of a team to attack-move to the center of the other team."""
    other = state.present & ~team
    count = jnp.maximum(other.sum(), 1)
    goal_x = jnp.where(other, state.x, 0.0).sum() / count
    goal_y = jnp.where(other, state.y, 0.0).sum() / count
    if not game.arena.random_angle:  # the trigger of the classic maps names the spawn point itself
        goal_x, goal_y = (center[jnp.argmin(team)] for center in _army_centers(jnp.zeros(()), game))
    ordered = team & state.present
    return replace(
        state,
        attack_moving=state.attack_moving | ordered,
        moving=state.moving | ordered,
        goal_x=jnp.where(ordered, goal_x, state.goal_x),
        goal_y=jnp.where(ordered, goal_y, state.goal_y),
    )


def is_on_map(x: float, y: float, radius: float, arena: Arena) -> bool:
    """Return whether a body of this radius lies within the walkable part of the map."""
    return arena.west + radius <= x <= arena.east - radius and arena.south + radius <= y <= arena.north - radius


def _army_centers(angle: Float[Array, ""], game: Game) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    # The spawn point of each unit's army; on the classic maps enemies are in the east.
    arena = game.arena
    ally = ~game.is_enemy
    angle = angle if arena.random_angle else jnp.asarray(np.pi, jnp.float32)
    distance = jnp.where(ally, 1.0, -1.0) * arena.spawn_distance
    return arena.center + distance * jnp.cos(angle), arena.center + distance * jnp.sin(angle)


def spawn_points(
    unit_type: Int[Array, " units"], key: PRNGKeyArray, game: Game
) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    """Return the point around which each unit starts, given the key of `spawn`: one for the units of a type in an army."""
    position_key, _ = jax.random.split(key)
    angle_key, offset_key, _ = jax.random.split(position_key, 3)
    x, y, block, offset = _blocks(unit_type, angle_key, offset_key, game)
    return x + offset[0][block], y + offset[1][block]


def _blocks(
    unit_type: Int[Array, " units"], angle_key: PRNGKeyArray, offset_key: PRNGKeyArray, game: Game
) -> tuple[Float[Array, " units"], Float[Array, " units"], Int[Array, " units"], Float[Array, "2 blocks"]]:
    # The spawn point of each unit's army, its block, and how far each block is off that point.
    angle = jax.random.uniform(angle_key, (), maxval=2 * np.pi)
    x, y = _army_centers(angle, game)
    ally = ~game.is_enemy
    blocks = len(game.table.units) + 1  # blocks per army: one for each type, and one for empty slots
    block = unit_type + 1 + jnp.where(ally, 0, blocks)
    offset = jax.random.uniform(offset_key, (2, 2 * blocks), minval=-OFFSET, maxval=OFFSET)
    offset = offset if game.arena.random_angle else jnp.zeros_like(offset)
    return x, y, block, offset


def _positions(
    unit_type: Int[Array, " units"], key: PRNGKeyArray, game: Game
) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    # The units of one type start around one point, as close together as their bodies allow, sorted by x.
    angle_key, offset_key, rotation_key = jax.random.split(key, 3)
    x, y, block, offset = _blocks(unit_type, angle_key, offset_key, game)
    # A spiral of golden angles is nearly the densest packing, so that few passes separate the bodies.
    earlier = (block[:, None] == block) & (jnp.arange(game.num_units)[:, None] > jnp.arange(game.num_units))
    rank = earlier.sum(axis=1)
    rotation = jax.random.uniform(rotation_key, (offset.shape[1],), maxval=2 * np.pi)[block]
    radius = 0.5 * game.table[unit_type].collision_radius * jnp.sqrt(rank.astype(jnp.float32))
    x = x + offset[0][block] + radius * jnp.cos(rotation + motion.GOLDEN_ANGLE * rank)
    y = y + offset[1][block] + radius * jnp.sin(rotation + motion.GOLDEN_ANGLE * rank)
    state = idle_state(unit_type, x, y, jnp.zeros_like(unit_type), game)
    x, y = motion.separate(state, game.table[unit_type], 40 + 2 * game.num_units, game.arena)
    order = jnp.lexsort((y, x, block))
    slots = jnp.argsort(block, stable=True)  # the n-th unit of a block gets the n-th position of that block
    return jnp.zeros_like(x).at[slots].set(x[order]), jnp.zeros_like(y).at[slots].set(y[order])


def _tags(unit_type: Int[Array, " units"], key: PRNGKeyArray, game: Game) -> Int[Array, " units"]:
    # Enemies share the first tags at random, allies the rest; empty slots have none.
    ally_key, enemy_key = jax.random.split(key)
    ally = game.enemy_tags + jax.random.permutation(ally_key, game.ally_tags)[: game.num_allies]
    enemy = jax.random.permutation(enemy_key, game.enemy_tags)[: game.num_units - game.num_allies]
    return jnp.where(unit_type >= 0, jnp.concatenate([ally, enemy]), NOBODY)
