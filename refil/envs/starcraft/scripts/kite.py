"""Ranged units attack when ready and not threatened, and otherwise retreat from melee units.

They do not retreat straight back, which ends at a wall: they move to where melee units are far away and no wall is near, which
leads around the enemies.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from refil.envs.starcraft import tactics
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.orders import DIRECTION_X, DIRECTION_Y, FIRST_TARGET, NORTH, STOP
from refil.envs.starcraft.sim.rules import MOVE_DISTANCE, TICKS_PER_STEP
from refil.envs.starcraft.sim.state import Arena, State

MELEE_RANGE = 1.0  # weapons with a shorter range are melee
THREAT, CAUTION = 2.0, 5.0  # edge to edge: retreat from melee units this near; while reloading, from those this near
# Danger of a melee unit at a distance d from center to center: exp((DANGER_DISTANCE - d) / DANGER_DECAY).
DANGER_DISTANCE, DANGER_DECAY = 1.0, 1.5
WALL_DISTANCE, WALL_DANGER = 6.0, 0.02  # nearer walls are dangerous, growing with the square of the missing distance


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Target the nearest enemy, or retreat."""
    stats, game = env.game.stats(state), env.game
    agents = slice(0, game.num_allies)
    attack = tactics.attack_or_approach(env, state, tactics.distances(state))
    melee = stats.armed & (stats.range < MELEE_RANGE)
    threats = game.opponents[agents] & (melee & state.alive)
    edge = tactics.distances(state) - stats.radius[:, None] - stats.radius
    nearest = jnp.where(threats, edge[agents], tactics.FAR).min(axis=1)
    retreats = (nearest < THREAT) | ((nearest < CAUTION) & (state.cooldown[agents] >= TICKS_PER_STEP / 2))

    x = state.x[agents, None] + MOVE_DISTANCE * DIRECTION_X[NORTH:]
    y = state.y[agents, None] + MOVE_DISTANCE * DIRECTION_Y[NORTH:]
    distance = jnp.hypot(x[..., None] - state.x, y[..., None] - state.y)
    danger = jnp.where(threats[:, None], jnp.exp((DANGER_DISTANCE - distance) / DANGER_DECAY), 0.0).sum(axis=-1)
    danger += WALL_DANGER * jnp.maximum(WALL_DISTANCE - _wall_distance(x, y, game.arena), 0.0) ** 2
    danger = jnp.where(env.available_actions(state)[:, NORTH:FIRST_TARGET], danger, tactics.FAR)
    retreat = jnp.where(danger.min(axis=1) < tactics.FAR, NORTH + jnp.argmin(danger, axis=1), STOP)
    actions = jnp.where(retreats & ~melee[agents] & state.alive[agents], retreat, attack)
    return env.with_orders(state, actions)


def _wall_distance(x: Float[Array, "..."], y: Float[Array, "..."], arena: Arena) -> Float[Array, "..."]:
    walls = x - arena.west, arena.east - x, y - arena.south, arena.north - y
    return jnp.min(jnp.stack(walls), axis=0)
