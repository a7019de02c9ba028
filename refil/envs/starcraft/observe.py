"""Observations: entity features, visibility and available actions, as in the authors' StarCraft environment."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from refil.envs.starcraft import orders
from refil.envs.starcraft.sim.rules import SIGHT_RANGE
from refil.envs.starcraft.sim.state import Game, State
from refil.envs.starcraft.sim.unit import VARIED, UnitStats
from refil.types import Observation


def feature_names(game: Game, varied: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of the entity features; those of `varied` stats come last."""
    return (
        *(f"tag {tag}" for tag in range(game.num_tags)),
        *(f"can {action}" for action in orders.action_names(game)[orders.NORTH :]),
        *(f"is {name}" for name in game.table.names),
        "health",
        *(("shield",) if game.table.any("max_shield") else ()),
        "energy",
        "cooldown",
        "x from map center",
        "y from map center",
        "x from mean unit",
        "y from mean unit",
        *(f"extra {name}" for name in varied),
    )


def observe(state: State, game: Game) -> Observation:
    """Return the observations of all agents."""
    stats = game.stats(state)
    available = orders.available_actions(state, stats, game)
    return Observation(
        entities=_features(state, stats, available, game),
        present=state.present,
        alive=state.alive,
        visible=visible(state, game),
        available=available,
        group=game.is_enemy.astype(jnp.int32),
        targeting_action=orders.targeting_action(state, game),
    )


def visible(state: State, game: Game) -> Bool[Array, "agents units"]:
    """Return whether each agent sees each unit: living units see each other within sight range, and every unit itself."""
    x, y = state.x[: game.num_allies, None] - state.x, state.y[: game.num_allies, None] - state.y
    near = jnp.sqrt(x**2 + y**2) <= SIGHT_RANGE
    itself = jnp.arange(game.num_allies)[:, None] == jnp.arange(game.num_units)
    both_alive = state.alive[: game.num_allies, None] & state.alive
    return (near & both_alive) | (itself & state.present)


def _features(
    state: State, stats: UnitStats, available: Bool[Array, "agents actions"], game: Game
) -> Float[Array, "units features"]:
    # Dead units keep their tag and type; everything else is zero. Energy and cooldown of enemies are hidden.
    ally = ~game.is_enemy
    available = jnp.pad(available[:, orders.NORTH :], ((0, game.num_units - game.num_allies), (0, 0)))
    condition = [state.health / jnp.maximum(stats.max_health, 1.0)]
    if game.table.any("max_shield"):
        condition.append(state.shield / jnp.maximum(stats.max_shield, 1.0))
    condition.append(jnp.where(ally, state.energy / jnp.maximum(stats.max_energy, 1.0), 0.0))
    condition.append(jnp.where(ally, state.cooldown / jnp.maximum(stats.max_cooldown, 1.0), 0.0))
    extra = [state.multipliers[name] - 1.0 for name in VARIED if name in state.multipliers]
    arena = game.arena
    position = [(state.x - arena.center) / arena.size, (state.y - arena.center) / arena.size, *_from_mean(state)]
    blocks = [
        state.tag[:, None] == jnp.arange(game.num_tags),
        available,
        state.unit_type[:, None] == jnp.arange(len(game.table.units)),
        jnp.where(state.alive[:, None], jnp.stack([*condition, *position, *extra], axis=1), 0.0),
    ]
    return jnp.concatenate([block.astype(jnp.float32) for block in blocks], axis=1)


def _from_mean(state: State) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    # Relative to the mean position of all units, dead ones included; the furthest unit is at distance 1.
    count = jnp.maximum(state.present.sum(), 1)
    x = state.x - jnp.where(state.present, state.x, 0.0).sum() / count
    y = state.y - jnp.where(state.present, state.y, 0.0).sum() / count
    furthest = jnp.where(state.present, jnp.sqrt(x**2 + y**2), 0.0).max()
    return x / jnp.maximum(furthest, 1e-6), y / jnp.maximum(furthest, 1e-6)
