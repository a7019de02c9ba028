"""Building blocks of scripts: attack or approach a unit, and move in a direction."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from refil.envs.starcraft import orders
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import State, norm

FAR = 1e6


def distances(state: State) -> Float[Array, "units units"]:
    """Return the distances of all pairs of units, center to center."""
    return norm(state.x[:, None] - state.x, state.y[:, None] - state.y)


def attack_or_approach(env: StarCraft, state: State, cost: Float[Array, "units units"]) -> Int[Array, " agents"]:
    """Return actions: each agent targets the available enemy with the lowest [agent, target] cost, or walks to the nearest.

    Healers target damaged allies instead, and stop if no ally is damaged.
    """
    game = env.game
    stats = game.stats(state)
    damaged = state.health < stats.max_health
    teammates = ~game.opponents & ~jnp.eye(game.num_units, dtype=bool) & (stats.heal_rate == 0)[None]
    candidates = jnp.where(stats.heals[:, None], teammates & damaged[None], game.opponents) & state.alive[None]
    candidates = candidates[: game.num_allies]
    available = env.available_actions(state)[:, orders.FIRST_TARGET :]
    has_action = (state.tag < available.shape[1]) & (state.tag >= 0)
    available = available[:, jnp.clip(state.tag, 0, available.shape[1] - 1)] & has_action
    target_cost = jnp.where(available & candidates, cost[: game.num_allies], FAR)
    target = jnp.argmin(target_cost, axis=1)
    distance = jnp.where(candidates, distances(state)[: game.num_allies], FAR)
    nearest = jnp.argmin(distance, axis=1)
    x, y = state.x[nearest] - state.x[: game.num_allies], state.y[nearest] - state.y[: game.num_allies]
    approach = jnp.where(distance.min(axis=1) < FAR, move_along(env, state, x, y), orders.STOP)
    action = jnp.where(target_cost.min(axis=1) < FAR, orders.FIRST_TARGET + state.tag[target], approach)
    return jnp.where(state.alive[: game.num_allies], action, orders.NO_OP)


def move_along(env: StarCraft, state: State, x: Array, y: Array) -> Int[Array, " agents"]:
    """Return the available move that leads furthest in each agent's direction (x, y), or stop if none does."""
    num_allies = env.game.num_allies
    x, y = x[:num_allies], y[:num_allies]
    progress = jnp.stack([y, -y, x, -x], axis=1)
    progress = jnp.where(env.available_actions(state)[:, orders.NORTH : orders.FIRST_TARGET], progress, -FAR)
    return jnp.where(progress.max(axis=1) > 0, orders.NORTH + jnp.argmax(progress, axis=1), orders.STOP)
