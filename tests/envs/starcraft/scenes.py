"""Helpers for tests with a few units, tick by tick; one table holds all unit types, so that few sizes are compiled."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from refil.envs.starcraft import env, spawn
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import SMAC, SMACLITE
from refil.envs.starcraft.sim.state import ARENAS, Game, State

EXACT = replace(SMAC, jitter=False, acceleration=False)
SMACLITE_EXACT = replace(SMACLITE, acceleration=False)
LETTERS = ("m", "M", "v", "s", "z", "c", "h", "zg", "b", "sc")
TABLES = {
    "smac": env.unit_table([(dict.fromkeys(LETTERS, 1), {})], "smac"),
    "smaclite": env.unit_table([({letter: 1 for letter in LETTERS if letter != "h"}, {})], "smaclite"),
}


def game(allies: int, units: int, rules=EXACT, profile="smac") -> Game:
    return Game(allies, units, TABLES[profile], ARENAS["any_angle"], rules)


def place(units: list[tuple[str, float, float]], game: Game, **given) -> State:
    """Return units of these types at these positions, without orders; `given` sets fields of the state."""
    unit_type = jnp.array([game.table.names.index(name) for name, _, _ in units])
    x, y = (jnp.array([float(unit[axis]) for unit in units]) for axis in (1, 2))
    enemies = game.num_units - game.num_allies
    tag = jnp.array([*range(enemies, game.num_units), *range(enemies)])
    fresh = spawn.idle_state(unit_type, x, y, tag, game)
    return replace(fresh, **{name: jnp.asarray(value, getattr(fresh, name).dtype) for name, value in given.items()})


@cache
def one_tick(game: Game):
    return jax.jit(partial(advance, game))


def advance(game: Game, state: State) -> State:
    return tick.tick(state, game.stats(state), jnp.zeros_like(state.x), game)


def after(state: State, game: Game, ticks: int) -> list[State]:
    """Return the state after each of this many ticks."""
    states = []
    for _ in range(ticks):
        state = one_tick(game)(state)
        states.append(state)
    return states


def duel(attacker: str, victim: str, rules=EXACT):
    """Return how many attacks a kill of a standing unit takes, in how many ticks, and shield and health after each."""
    arena = game(1, 2, rules)
    radii = [arena.table.units[arena.table.names.index(name)].radius for name in (attacker, victim)]
    now = place([(attacker, 10.0, 16.0), (victim, 10.0 + sum(radii) + 0.05, 16.0)], arena, target=[1, -1])
    shots, life, left = [], [], (float(now.shield[1]), float(now.health[1]))
    for number in range(1, 2000):
        now = one_tick(arena)(now)
        shield, health = (leaf.item(1) for leaf in jax.device_get((now.shield, now.health)))
        if shield + health < sum(left) - 0.2:
            shots.append(number)
            life.append((shield, health))
        left = shield, health
        if health <= 0:
            break
    return len(shots), shots[-1] - shots[0], life


def positions(state: State) -> np.ndarray:
    return np.stack(jax.device_get((state.x, state.y)), axis=-1)
