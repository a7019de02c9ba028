"""Behavior statistics: how often a team had the opportunity for a behavior, and how often it showed it.

Everything is computed from the orders that units have, so that trained teams and scripts are measured in the same way.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil.envs.starcraft import orders, tactics
from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim import targeting
from refil.envs.starcraft.sim.rules import SIGHT_RANGE, TICKS_PER_STEP
from refil.envs.starcraft.sim.state import Game, State, norm
from refil.envs.starcraft.sim.unit import single_target
from refil.rollout import step_keys
from refil.types import Trajectory

MELEE_RANGE = 1.0  # weapons with a shorter range are melee
CLOSE = 3.0  # center to center: distance at which a melee enemy counts as close
Counts = dict[str, Int[Array, "2"]]  # opportunities, and how many of them were taken


def count(state: State, game: Game) -> Counts:
    """Count the behaviors in one timestep of one battle, given the state in which the units have their orders."""
    stats = game.stats(state)
    ally, enemy = state.alive & ~game.is_enemy, state.alive & game.is_enemy
    distance = jnp.where(enemy, tactics.distances(state), jnp.inf)  # [unit, enemy]
    near = distance <= orders.target_range(state)
    target = jnp.maximum(state.target, 0)
    attacks = ally & (state.target >= 0) & enemy[target]
    attackers = (attacks[:, None] & attacks & (target[:, None] == target)).sum(axis=1)
    hit_points = jnp.where(near, state.health + state.shield, jnp.inf)
    has_choice = near.sum(axis=1) > 1
    healer = enemy & stats.heals
    nearest = distance.min(axis=1)
    retreats = state.moving & (state.target < 0) & (_distance_at_goal(state, enemy) > nearest)
    advances = attacks | (state.moving & (_distance_at_goal(state, enemy) < nearest))
    ranged = ally & stats.armed & (stats.range > MELEE_RANGE)
    reloads = ranged & (state.cooldown > TICKS_PER_STEP) & near.any(axis=1)
    melee_enemy = enemy & stats.armed & (stats.range <= MELEE_RANGE)
    threatened = jnp.where(melee_enemy, distance, jnp.inf).min(axis=1) <= CLOSE
    is_target = (enemy & (state.target == jnp.arange(game.num_units)[:, None])).any(axis=1)
    damaged = ally & is_target & (state.health + state.shield < (stats.max_health + stats.max_shield) / 2)
    # Added instead of selected: in games without splash damage XLA would take seconds to fold the constant.
    splash_distance = (distance + jnp.where(enemy & _has_splash(state, game), 0.0, jnp.inf)).min(axis=1)
    near_splash = ally & (stats.range <= MELEE_RANGE) & stats.armed & (splash_distance <= SIGHT_RANGE)
    healer_choice = attacks & (near & healer).any(axis=1) & (near & ~healer).any(axis=1)
    edge_distances, armed = targeting.edge_distances(state, stats), state.alive & stats.armed
    reaches = armed & ((edge_distances <= stats.range[:, None]) & state.alive & (ally[:, None] != ally)).any(axis=1)
    pursues = enemy & stats.armed & (state.target >= 0) & ally[target]
    chases = edge_distances[jnp.arange(game.num_units), target] > stats.range
    meets = ally & stats.armed & ~reaches & (nearest <= SIGHT_RANGE)
    shooting, shooting_enemies = (reaches & ally).sum(), (reaches & enemy).sum()
    is_weakest = hit_points[jnp.arange(game.num_units), target] <= hit_points.min(axis=1)
    return {
        "attack an enemy that another agent attacks": _tally(attacks & (attacks.sum() > 1), attackers > 1),
        "attack the weakest enemy in range": _tally(attacks & has_choice, is_weakest),
        "retreat while reloading (ranged)": _tally(reloads, retreats),
        "retreat from a close melee enemy while reloading (ranged)": _tally(reloads & threatened, retreats),
        "retreat when damaged and attacked": _tally(damaged, retreats),
        "attack a healer in range": _tally(healer_choice, healer[target]),
        "keep away from splash damage (melee)": _tally(near_splash, ~advances),
        "wait for enemies in sight but out of weapon range": _tally(meets, ~advances),
        "make an enemy chase its target": _tally(pursues, chases),
        "have more units in weapon range of an enemy than the enemy": _tally(
            shooting + shooting_enemies > 0, shooting > shooting_enemies
        ),
    }


def count_team(env: StarCraft, trajectories: Trajectory) -> Counts:
    """Count the behaviors of a team that played these battles; trajectories have one axis of battles."""

    def count_step(state: State, actions: Int[Array, " agents"], valid: Bool[Array, ""]) -> Counts:
        ordered = env.with_orders(state, actions.astype(jnp.int32))
        return jax.tree.map(lambda counts: counts * valid, count(ordered, env.game))

    return _total(jax.vmap(jax.vmap(count_step))(_before_steps(trajectories), trajectories.actions, trajectories.valid))


def count_script(env: ScriptedStarCraft, trajectories: Trajectory) -> Counts:
    """Count the behaviors of a script that played these battles; trajectories have one axis of battles."""

    def count_step(key: PRNGKeyArray, state: State, time: Int[Array, ""], valid: Bool[Array, ""]) -> Counts:
        ordered = env.with_orders(state, step_keys(key, time)[1])
        return jax.tree.map(lambda counts: counts * valid, count(ordered, env.env.game))

    def count_battle(key: PRNGKeyArray, states: State, valid: Bool[Array, " time"]) -> dict[str, Int[Array, "time 2"]]:
        return jax.vmap(partial(count_step, key))(states, jnp.arange(len(valid)), valid)

    keys = jax.random.wrap_key_data(trajectories.key)
    return _total(jax.vmap(count_battle)(keys, _before_steps(trajectories), trajectories.valid))


def _before_steps(trajectories: Trajectory) -> State:
    return jax.tree.map(lambda leaf: leaf[:, :-1], trajectories.states)


def _total(counts: dict[str, Int[Array, "battles time 2"]]) -> Counts:
    return jax.tree.map(lambda leaf: leaf.sum(axis=(0, 1)), counts)


def _tally(opportunity: Bool[Array, "*units"], taken: Bool[Array, "*units"]) -> Int[Array, "2"]:
    return jnp.stack([opportunity.sum(), (opportunity & taken).sum()])


def _has_splash(state: State, game: Game) -> Bool[Array, " units"]:
    effects = game.table.effects.items()
    unit_types = [unit_type for effect, unit_types in effects if effect != single_target for unit_type in unit_types]
    return jnp.isin(state.unit_type, jnp.array(unit_types, state.unit_type.dtype))


def _distance_at_goal(state: State, enemy: Bool[Array, " units"]) -> Float[Array, " units"]:
    # The distance to the nearest enemy from the point that each unit walks to.
    x, y = state.x - state.goal_x[:, None], state.y - state.goal_y[:, None]
    return jnp.where(enemy, norm(x, y), jnp.inf).min(axis=1)
