"""Who can hurt or mend whom, and how roaming units choose whom to go for: what the game does for units that attack-move."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim.rules import ENERGY_TO_START, REACH_OF_HEALING
from refil.envs.starcraft.sim.state import NOBODY, Game, World, length, of, over_batch
from refil.envs.starcraft.sim.unit import BIOLOGICAL, Traits

FAR = 1e6


def hittable(shooter: Traits, victim: Traits, game: Game) -> Bool[Array, "units units *batch"]:
    """Whom each unit's weapon can hurt at all. Either argument is the traits of all, one along each axis of pairs."""
    reaches = (shooter.hits & victim.plane) != 0
    return over_batch(game.foes, reaches[0]) & reaches & shooter.armed


def can_hit(index: Int[Array, "units *batch"], traits: Traits, game: Game) -> Bool[Array, "units *batch"]:
    """Whether each unit's weapon can hurt the one it points at."""
    foe = (index >= game.allies) != over_batch(game.enemies, traits.radius)
    return (index >= 0) & foe & ((traits.hits & of(traits.plane, index, game)) != 0) & traits.armed


def mendable(traits: Traits, game: Game) -> Bool[Array, "units units *batch"]:
    """[other, unit]: whether the unit can heal the other at all."""
    friends = over_batch(~game.foes & ~jnp.eye(game.units, dtype=bool), traits.radius)
    return friends & traits.heals[None] & ((traits.attributes[:, None] & BIOLOGICAL) != 0)


def can_mend(index: Int[Array, "units *batch"], traits: Traits, game: Game) -> Bool[Array, "units *batch"]:
    """Whether each unit can heal the one it points at."""
    friend = (index >= game.allies) == over_batch(game.enemies, traits.radius)
    other = index != over_batch(jnp.arange(game.units), traits.radius)
    return (index >= 0) & friend & other & traits.heals & ((of(traits.attributes, index, game) & BIOLOGICAL) != 0)


def way_to(
    index: Int[Array, "units *batch"], world: World, traits: Traits, game: Game
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """The way to whom each unit points at, along x and y, and how far it is from edge to edge."""
    x, y = of(world.x, index, game) - world.x, of(world.y, index, game) - world.y
    return x, y, length(x, y) - traits.radius - of(traits.radius, index, game)


def edges(world: World, traits: Traits) -> Float[Array, "units units *batch"]:
    """How far any two units are from each other, edge to edge."""
    distance = length(world.x[None] - world.x[:, None], world.y[None] - world.y[:, None])
    return distance - traits.radius[:, None] - traits.radius[None]


def choose(world: World, traits: Traits, game: Game) -> Int[Array, "units *batch"]:
    """Whom each armed unit would shoot at: its target while that is in range, else the nearest foe, else who hurt it.

    By SMAClite's rules it answers whoever goes for it, from however far, and does not let go of him while he does.
    """
    rules, edge = game.rules, edges(world, traits)
    scan = jnp.maximum(rules.scan, traits.range) if rules.scan_from_edge else rules.scan - traits.radius
    targets = hittable(traits.along(1), traits.along(0), game) & world.alive[:, None]
    noticed = targets & (edge <= scan[None])
    order = jnp.where(noticed, edge, FAR)
    if rules.answers:  # after all that it notices, and whoever comes first of several, however far each is
        order = jnp.where(targets & aims_at(world) & ~noticed, FAR / 2, order)
    if rules.healers_first:
        order = order - jnp.where(noticed & traits.heals[:, None], FAR / 2, 0.0)
    nearest = jnp.argmin(order, axis=0).astype(world.target.dtype)
    found = jnp.where(order.min(axis=0) < FAR, nearest, NOBODY)

    def lives(index: Int[Array, "units *batch"]) -> Bool[Array, "units *batch"]:
        return can_hit(index, traits, game) & of(world.alive, index, game)

    pursues = lives(world.attacker) & (way_to(world.attacker, world, traits, game)[2] <= rules.leash)
    found = jnp.where(found >= 0, found, jnp.where(pursues, world.attacker, NOBODY))
    holds = way_to(world.target, world, traits, game)[2] <= traits.range
    if rules.answers:
        holds |= of(world.target, world.target, game) == over_batch(jnp.arange(game.units), world.x)
    keeps = lives(world.target) & holds
    if rules.healers_first:
        keeps &= ~(found >= 0) | of(traits.heals, world.target, game) | ~of(traits.heals, found, game)
    return jnp.where(keeps, world.target, found)


def aims_at(world: World) -> Bool[Array, "units units *batch"]:
    """[other, unit]: whether the other goes for the unit."""
    return world.target[:, None] == over_batch(jnp.arange(len(world.x)), world.x)[None]


def choose_patient(world: World, traits: Traits, game: Game) -> Int[Array, "units *batch"]:
    """Whom each healer would mend: of the hurt within reach the worst off, then the nearest.

    By SMAClite's rules those who go for somebody count as well, so that healers stay with them.
    """
    edge = edges(world, traits)
    wanting = world.health < traits.health
    if game.rules.healers_follow:
        wanting |= world.target >= 0
    candidate = mendable(traits, game) & (world.alive & wanting)[:, None] & (edge <= reach_of_healing(traits, game))
    health = world.health / jnp.maximum(traits.health, 1.0) if game.rules.heal_by_share else world.health
    worst = jnp.where(candidate, health[:, None], FAR)
    order = jnp.where(worst <= worst.min(axis=0)[None], edge, FAR)
    found = worst.min(axis=0) < FAR
    if not game.rules.healers_follow:
        found &= world.energy >= jnp.where(world.target >= 0, traits.heal * traits.heal_cost, ENERGY_TO_START)
    return jnp.where(found, jnp.argmin(order, axis=0).astype(world.target.dtype), NOBODY)


def reach_of_healing(traits: Traits, game: Game) -> Float[Array, "1 units *batch"] | float:
    """How far a roaming healer looks, from edge to edge."""
    return REACH_OF_HEALING if game.rules.scan_from_edge else (game.rules.scan - traits.radius)[None]


def speed_beside_friends(world: World, traits: Traits, game: Game) -> Float[Array, "units *batch"]:
    """Everyone's speed, but no more than that of the slowest whom it could mend nearby."""
    near = mendable(traits, game) & world.alive[:, None] & (edges(world, traits) <= reach_of_healing(traits, game))
    return jnp.minimum(traits.speed, jnp.where(near, traits.speed[:, None], FAR).min(axis=0))


def retarget(world: World, traits: Traits, game: Game) -> Int[Array, "units *batch"]:
    """Everyone's target in this loop: roaming units choose, the others keep theirs while it lives."""
    chosen = choose(world, traits, game)
    if game.table.any("heal"):
        chosen = jnp.where(traits.heals, choose_patient(world, traits, game), chosen)
    lives = of(world.alive, world.target, game) | game.rules.shots_at_corpses
    held = jnp.where(lives, world.target, NOBODY)
    return jnp.where(world.alive, jnp.where(world.roams, chosen, held), NOBODY)
