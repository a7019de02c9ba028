"""Targets: the pairs of units that can attack or heal, and the choice of attack-moving units."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim.rules import HEAL_SCAN_RANGE, MIN_HEAL_ENERGY
from refil.envs.starcraft.sim.state import NOBODY, Game, State, add_batch_axes, argmin, at_target, norm
from refil.envs.starcraft.sim.unit import BIOLOGICAL, UnitStats

FAR = 1e6


def attackable(attacker: UnitStats, victim: UnitStats, game: Game) -> Bool[Array, "units units *batch"]:
    """Return whether each unit's weapon can damage each other unit; see `UnitStats.along` for the arguments."""
    hits_plane = (attacker.target_planes & victim.plane) != 0
    return add_batch_axes(game.opponents, hits_plane[0]) & hits_plane & attacker.armed


def can_attack(target: Int[Array, " units *batch"], stats: UnitStats, game: Game) -> Bool[Array, " units *batch"]:
    """Return whether each unit's weapon can damage its target."""
    opponent = (target >= game.num_allies) != add_batch_axes(game.is_enemy, stats.radius)
    return (target >= 0) & opponent & ((stats.target_planes & at_target(stats.plane, target, game)) != 0) & stats.armed


def healable(stats: UnitStats, game: Game) -> Bool[Array, "units units *batch"]:
    """Return a mask [other, unit] of the others that a unit can heal."""
    teammates = add_batch_axes(~game.opponents & ~jnp.eye(game.num_units, dtype=bool), stats.radius)
    return teammates & stats.heals[None] & ((stats.attributes[:, None] & BIOLOGICAL) != 0)


def can_heal(target: Int[Array, " units *batch"], stats: UnitStats, game: Game) -> Bool[Array, " units *batch"]:
    """Return whether each unit can heal its target."""
    same_team = (target >= game.num_allies) == add_batch_axes(game.is_enemy, stats.radius)
    other = target != add_batch_axes(jnp.arange(game.num_units), stats.radius)
    return (target >= 0) & same_team & other & stats.heals & ((at_target(stats.attributes, target, game) & BIOLOGICAL) != 0)


def offset_to(
    target: Int[Array, " units *batch"], state: State, stats: UnitStats, game: Game
) -> tuple[Float[Array, " units *batch"], Float[Array, " units *batch"], Float[Array, " units *batch"]]:
    """Return the vector from each unit to its target, as x and y, and their distance from edge to edge."""
    x, y = at_target(state.x, target, game) - state.x, at_target(state.y, target, game) - state.y
    return x, y, norm(x, y) - stats.radius - at_target(stats.radius, target, game)


def edge_distances(state: State, stats: UnitStats) -> Float[Array, "units units *batch"]:
    """Return the distances of all pairs of units from edge to edge."""
    distance = norm(state.x[:, None] - state.x[None], state.y[:, None] - state.y[None])  # as in `motion.pairs`, which shares it
    return distance - stats.radius[:, None] - stats.radius[None]


def choose_enemy(state: State, stats: UnitStats, game: Game) -> Int[Array, " units *batch"]:
    """Choose a target for each armed unit: its last one while in range, else the nearest enemy, else its last attacker.

    By SMAClite's rules it retaliates: it targets whoever targets it, at any distance, and keeps that target meanwhile.
    """
    rules, edge = game.rules, edge_distances(state, stats)
    scan = jnp.maximum(rules.scan_range, stats.range) if rules.scan_from_edge else rules.scan_range - stats.radius
    targets = attackable(stats.along(1), stats.along(0), game) & state.alive[:, None]
    noticed = targets & (edge <= scan[None])
    cost = jnp.where(noticed, edge, FAR)
    if rules.retaliate:  # after all noticed enemies; the first of several, at whatever distance
        cost = jnp.where(targets & targeted_by(state) & ~noticed, FAR / 2, cost)
    if rules.prefer_healers:
        cost = cost - jnp.where(noticed & stats.heals[:, None], FAR / 2, 0.0)
    nearest = argmin(cost, game).astype(state.target.dtype)
    found = jnp.where(cost.min(axis=0) < FAR, nearest, NOBODY)

    def is_valid(target: Int[Array, " units *batch"]) -> Bool[Array, " units *batch"]:
        return can_attack(target, stats, game) & at_target(state.alive, target, game)

    pursues = is_valid(state.attacker) & (offset_to(state.attacker, state, stats, game)[2] <= rules.leash)
    found = jnp.where(found >= 0, found, jnp.where(pursues, state.attacker, NOBODY))
    holds = offset_to(state.target, state, stats, game)[2] <= stats.range
    if rules.retaliate:
        holds |= at_target(state.target, state.target, game) == add_batch_axes(jnp.arange(game.num_units), state.x)
    keeps = is_valid(state.target) & holds
    if rules.prefer_healers:
        keeps &= ~(found >= 0) | at_target(stats.heals, state.target, game) | ~at_target(stats.heals, found, game)
    return jnp.where(keeps, state.target, found)


def targeted_by(state: State) -> Bool[Array, "units units *batch"]:
    """Return a mask [other, unit] of the others that target a unit."""
    return state.target[:, None] == add_batch_axes(jnp.arange(len(state.x)), state.x)[None]


def choose_patient(state: State, stats: UnitStats, game: Game) -> Int[Array, " units *batch"]:
    """Choose a target for each healer: of the damaged units in scan range the one with the least health, then the nearest.

    By SMAClite's rules undamaged units that have a target count as well, so that healers stay with them.
    """
    edge = edge_distances(state, stats)
    patient = state.health < stats.max_health
    if game.rules.healers_follow:
        patient |= state.target >= 0
    candidate = healable(stats, game) & (state.alive & patient)[:, None] & (edge <= heal_scan_range(stats, game))
    health = state.health / jnp.maximum(stats.max_health, 1.0) if game.rules.heal_lowest_fraction else state.health
    candidate_health = jnp.where(candidate, health[:, None], FAR)
    cost = jnp.where(candidate_health <= candidate_health.min(axis=0)[None], edge, FAR)
    found = candidate_health.min(axis=0) < FAR
    if not game.rules.healers_follow:
        found &= state.energy >= jnp.where(state.target >= 0, stats.heal_rate * stats.heal_cost, MIN_HEAL_ENERGY)
    return jnp.where(found, argmin(cost, game).astype(state.target.dtype), NOBODY)


def heal_scan_range(stats: UnitStats, game: Game) -> Float[Array, "1 units *batch"] | float:
    """Return how far an attack-moving healer looks for damaged units, from edge to edge."""
    return HEAL_SCAN_RANGE if game.rules.scan_from_edge else (game.rules.scan_range - stats.radius)[None]


def escort_speed(state: State, stats: UnitStats, game: Game) -> Float[Array, " units *batch"]:
    """Return each unit's speed, limited to that of the slowest unit nearby that it can heal."""
    near = healable(stats, game) & state.alive[:, None] & (edge_distances(state, stats) <= heal_scan_range(stats, game))
    return jnp.minimum(stats.speed, jnp.where(near, stats.speed[:, None], FAR).min(axis=0))


def retarget(state: State, stats: UnitStats, game: Game) -> Int[Array, " units *batch"]:
    """Return the targets of this tick: attack-moving units choose, the others keep theirs while it lives."""
    chosen = choose_enemy(state, stats, game)
    if game.table.any("heal_rate"):
        chosen = jnp.where(stats.heals, choose_patient(state, stats, game), chosen)
    lives = at_target(state.alive, state.target, game) | game.rules.shots_at_corpses
    kept = jnp.where(lives, state.target, NOBODY)
    return jnp.where(state.alive, jnp.where(state.attack_moving, chosen, kept), NOBODY)
