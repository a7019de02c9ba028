"""What a team does, counted: how often it had the chance of something, and how often it did it.

Everything is read off the orders that units have, so that trained teams and scripts are counted alike.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from refil.envs.starcraft import tactics
from refil.envs.starcraft.analysis.scripted import Command, keys_at, one_step
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.rules import LOOPS, ORDER_RANGE, SIGHT
from refil.envs.starcraft.sim.state import Game, World, length
from refil.envs.starcraft.sim.unit import aimed

MELEE = 1.0  # weapons that reach less far
CLOSE = 3.0  # a fighter is at one's throat
Counts = dict[str, Int[Array, "2"]]  # chances, and how many of them were taken


def count(ordered: World, game: Game) -> Counts:
    """One instant of one battle, with orders given."""
    traits = game.table[ordered.kind]
    ally, foe = ordered.alive & ~game.enemies, ordered.alive & game.enemies
    distance = jnp.where(foe, tactics.distances(ordered), jnp.inf)  # [unit, foe]
    near = distance <= ORDER_RANGE
    target = jnp.maximum(ordered.target, 0)
    attacks = ally & (ordered.target >= 0) & foe[target]
    mates = (attacks[:, None] & attacks & (target[:, None] == target)).sum(axis=1)
    life = jnp.where(near, ordered.health + ordered.shield, jnp.inf)
    several = near.sum(axis=1) > 1
    healer = foe & traits.heals
    splash = foe & splashes(ordered, game)
    nearest = distance.min(axis=1)
    away = ordered.going & (ordered.target < 0) & (after_step(ordered, foe) > nearest)
    toward = attacks | (ordered.going & (after_step(ordered, foe) < nearest))
    reloads = ally & traits.armed & (traits.range > MELEE) & (ordered.cooldown > LOOPS) & near.any(axis=1)
    fighter = foe & traits.armed & (traits.range <= MELEE)
    chased = jnp.where(fighter, distance, jnp.inf).min(axis=1) <= CLOSE
    hunted = (foe & (ordered.target == jnp.arange(game.units)[:, None])).any(axis=1)
    hurt = ally & hunted & (ordered.health + ordered.shield < (traits.health + traits.shield) / 2)
    # Added, not selected: where no unit splashes XLA would take seconds to find out that a constant is one.
    to_splash = (distance + jnp.where(splash, 0.0, jnp.inf)).min(axis=1)
    wary = ally & (traits.range <= MELEE) & traits.armed & (to_splash <= SIGHT)
    return {
        "attack one that another attacks": tally(attacks & (attacks.sum() > 1), mates > 1),
        "attack the weakest in reach": tally(attacks & several, life[jnp.arange(game.units), target] <= life.min(axis=1)),
        "shooters step back while reloading": tally(reloads, away),
        "shooters step back from a fighter close by, reloading": tally(reloads & chased, away),
        "those hurt and attacked step back": tally(hurt, away),
        "attack a healer in reach": tally(attacks & (near & healer).any(axis=1) & (near & ~healer).any(axis=1), healer[target]),
        "fighters hold back from splash": tally(wary, ~toward),
    }


def tally(chance: Bool[Array, " units"], taken: Bool[Array, " units"]) -> Int[Array, "2"]:
    """How many had the chance, and how many took it."""
    return jnp.stack([chance.sum(), (chance & taken).sum()])


def splashes(world: World, game: Game) -> Bool[Array, " units"]:
    """Whose shots hurt others than their target."""
    kinds = [kind for effect, kinds in game.table.effects.items() if effect != aimed for kind in kinds]
    return jnp.isin(world.kind, jnp.array(kinds, world.kind.dtype))


def after_step(ordered: World, foe: Bool[Array, " units"]) -> Float[Array, " units"]:
    """How far the nearest foe would be from the point that each walks to."""
    x, y = ordered.x - ordered.goal_x[:, None], ordered.y - ordered.goal_y[:, None]
    return jnp.where(foe, length(x, y), jnp.inf).min(axis=1)


def of_team(
    battle: Battle, states: World, actions: Int[Array, "battles time agents"], valid: Bool[Array, "battles time"]
) -> Counts:
    """Recorded battles; of states there is one more than of actions."""
    states = jax.tree.map(lambda leaf: leaf[:, :-1], states)

    def instant(state: World, actions: Int[Array, " agents"], valid: Bool[Array, ""]) -> Counts:
        return jax.tree.map(lambda each: each * valid, count(battle.ordered(state, actions.astype(jnp.int32)), battle.game))

    return jax.tree.map(lambda each: each.sum(axis=(0, 1)), jax.vmap(jax.vmap(instant))(states, actions, valid))


def of_script(battle: Battle, command: Command, worlds: World, keys: Key[Array, " battles"]) -> Counts:
    """Battles from these first instants, with scripted allies."""

    def step(world: World, over: Bool[Array, ""], key: Array) -> tuple[World, Bool[Array, ""], Counts]:
        ordered = command(battle, world, keys_at(key, world.time)[0])
        after, outcome = one_step(battle, command, world, key, world.time)  # the same orders, which XLA works out once
        return after, over | outcome.terminated, jax.tree.map(lambda each: each * ~over, count(ordered, battle.game))

    def all_battles(now: tuple[World, Array], _: None) -> tuple[tuple[World, Array], Counts]:
        worlds, over, counts = jax.vmap(step)(*now, keys)
        return (worlds, over), jax.tree.map(partial(jnp.sum, axis=0), counts)

    counts = jax.lax.scan(all_battles, (worlds, jnp.zeros(keys.shape, bool)), None, length=battle.limit)[1]
    return jax.tree.map(partial(jnp.sum, axis=0), counts)
