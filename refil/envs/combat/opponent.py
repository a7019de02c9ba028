"""How roaming units choose whom to go for: what the game does for units that attack-move."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.combat.rules import ENERGY_TO_START, REACH_OF_HEALING, Rules
from refil.envs.combat.unit import BIOLOGICAL, Traits
from refil.envs.combat.world import NOBODY, Game, World, of, over_batch

FAR = 1e6


def hittable(traits: Traits, game: Game) -> Bool[Array, "units units *batch"]:
    """Whom each unit's weapon can hurt at all."""
    reaches = (traits.hits[:, None] & traits.plane[None]) != 0
    return over_batch(game.foes, traits.radius) & reaches & traits.armed[:, None]


def mendable(traits: Traits, game: Game) -> Bool[Array, "units units *batch"]:
    """Whom each unit can heal at all."""
    friends = over_batch(~game.foes & ~jnp.eye(len(game.foes), dtype=bool), traits.radius)
    return friends & traits.heals[:, None] & ((traits.attributes[None] & BIOLOGICAL) != 0)


def choose(
    world: World,
    traits: Traits,
    edge: Float[Array, "units units *batch"],
    hittable: Bool[Array, "units units *batch"],
    rules: Rules,
) -> Int[Array, "units *batch"]:
    """Whom each armed unit would shoot at: its target while that is in range, else the nearest foe, else who hurt it."""
    candidate = hittable & world.alive[None]
    scan = jnp.maximum(rules.scan, traits.range)[:, None] if rules.scan_from_edge else rules.scan - traits.radius[:, None]
    noticed = candidate & (edge <= scan)
    order = jnp.where(noticed, edge, FAR)
    if rules.healers_first:
        order = order - jnp.where(noticed & traits.heals[None], FAR / 2, 0.0)
    nearest = jnp.argmin(order, axis=1).astype(world.target.dtype)
    found = jnp.where(noticed.any(axis=1), nearest, NOBODY)
    pursued = world.attacker
    pursues = valid(pursued, candidate) & (at(edge, pursued) <= rules.leash)
    found = jnp.where(found >= 0, found, jnp.where(pursues, pursued, NOBODY))
    keeps = valid(world.target, candidate) & (at(edge, world.target) <= traits.range)
    if rules.healers_first:
        keeps &= ~(found >= 0) | of(traits.heals, world.target) | ~of(traits.heals, found)
    return jnp.where(keeps, world.target, found)


def choose_patient(
    world: World,
    traits: Traits,
    edge: Float[Array, "units units *batch"],
    mendable: Bool[Array, "units units *batch"],
    rules: Rules,
) -> Int[Array, "units *batch"]:
    """Whom each healer would mend: of the hurt within reach the worst off, then the nearest."""
    hurt = world.alive & (world.health < traits.health)
    candidate = mendable & hurt[None] & (edge <= REACH_OF_HEALING)
    health = world.health / jnp.maximum(traits.health, 1.0) if rules.heal_by_share else world.health
    worst = jnp.where(candidate, health[None], FAR)
    order = jnp.where(worst <= worst.min(axis=1, keepdims=True), edge, FAR)
    energy = world.energy >= jnp.where(world.target >= 0, traits.heal * traits.heal_cost, ENERGY_TO_START)
    return jnp.where(candidate.any(axis=1) & energy, jnp.argmin(order, axis=1).astype(world.target.dtype), NOBODY)


def valid(index: Int[Array, "units *batch"], candidate: Bool[Array, "units units *batch"]) -> Bool[Array, "units *batch"]:
    """Whether a unit points at one of its candidates."""
    return (index >= 0) & at(candidate, index)


def at(pairs: Array, index: Int[Array, "units *batch"]) -> Array:
    """Each unit's entry for the one it points at."""
    return jnp.take_along_axis(pairs, jnp.maximum(index, 0)[:, None].astype(jnp.int32), axis=1)[:, 0]


def retarget(
    world: World,
    traits: Traits,
    edge: Float[Array, "units units *batch"],
    game: Game,
) -> Int[Array, "units *batch"]:
    """Everyone's target in this loop: roaming units choose, the others keep theirs while it lives."""
    chosen = choose(world, traits, edge, hittable(traits, game), game.rules)
    if game.table.any("heal"):
        chosen = jnp.where(traits.heals, choose_patient(world, traits, edge, mendable(traits, game), game.rules), chosen)
    lives = of(world.alive, world.target) | game.rules.shots_at_corpses
    held = jnp.where(lives, world.target, NOBODY)
    return jnp.where(world.alive, jnp.where(world.roams, chosen, held), NOBODY)
