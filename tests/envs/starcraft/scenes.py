"""Single situations of a few units, loop by loop; all unit types are in one table, so that few sizes are compiled."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from refil.envs.starcraft import env, spawn
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import SMAC, SMACLITE
from refil.envs.starcraft.sim.state import ARENAS, Game, World

STILL = replace(SMAC, jitter=False, acceleration=False)
STILL_AS_SMACLITE = replace(SMACLITE, acceleration=False)
LETTERS = ("m", "M", "v", "s", "z", "c", "h", "zg", "b", "sc")
TABLES = {
    "smac": env.table_of([(dict.fromkeys(LETTERS, 1), {})], "smac"),
    "smaclite": env.table_of([({letter: 1 for letter in LETTERS if letter != "h"}, {})], "smaclite"),
}


def game(allies: int, units: int, rules=STILL, profile="smac") -> Game:
    return Game(allies, units, TABLES[profile], ARENAS["any_angle"], rules)


def world(units: list[tuple[str, float, float]], game: Game, **given) -> World:
    """Units of these types in these places, without orders; `given` sets fields by hand."""
    kind = jnp.array([game.table.names.index(name) for name, _, _ in units])
    x, y = (jnp.array([float(unit[axis]) for unit in units]) for axis in (1, 2))
    enemies = game.units - game.allies
    tag = jnp.array([*range(enemies, game.units), *range(enemies)])
    fresh = spawn.still(kind, x, y, tag, game)
    return replace(fresh, **{name: jnp.asarray(value, getattr(fresh, name).dtype) for name, value in given.items()})


@cache
def one_loop(game: Game):
    return jax.jit(partial(advance, game))


def advance(game: Game, world: World) -> World:
    return tick.tick(world, game.table[world.kind], jnp.zeros_like(world.x), game)


def after(world: World, game: Game, loops: int) -> list[World]:
    """The world after each of so many loops."""
    worlds = []
    for _ in range(loops):
        world = one_loop(game)(world)
        worlds.append(world)
    return worlds


def duel(shooter: str, victim: str, rules=STILL):
    """Attacks and loops it takes one to kill another that stands still, and the victim's shield and health after each."""
    arena = game(1, 2, rules)
    radii = [arena.table.units[arena.table.names.index(name)].radius for name in (shooter, victim)]
    now = world([(shooter, 10.0, 16.0), (victim, 10.0 + sum(radii) + 0.05, 16.0)], arena, target=[1, -1])
    shots, loop, life = [], 0, []
    while now.health[1] > 0:
        before, now = now, one_loop(arena)(now)
        loop += 1
        hurt = float(now.health[1] + now.shield[1]) < float(before.health[1] + before.shield[1]) - 0.2
        if hurt:
            shots.append(loop)
            life.append((float(now.shield[1]), float(now.health[1])))
        assert loop < 2000
    return len(shots), shots[-1] - shots[0], life


def positions(world: World) -> np.ndarray:
    return np.stack([world.x, world.y], axis=-1)
