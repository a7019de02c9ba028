"""Comparison of the simulator with the game: the same scripted battles in both, number by number."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from refil import rollout, stats
from refil.envs.sc2 import table
from refil.envs.sc2.env import StarCraft2, with_script
from refil.envs.sc2.records import ALLY, Units
from refil.envs.starcraft import spawn
from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
from refil.envs.starcraft.sim.state import Game, State
from refil.envs.starcraft.sim.unit import AIR
from refil.types import Trajectory

MIN_BATTLES = stats.MIN_SEEDS  # fewer have no interval
TOLERANCE = 1e-4  # of constants, which the game sends as float32
FRACTION, AMOUNT = (0.0, 1.0), (0.0, float("inf"))  # bounds of values
# Which constants of the simulator decide a point, by the beginning of its name
CONSTANTS = {
    "win rate": "a consequence of the points below it",
    "length": "speed, range, damage and attack_period of the units; Rules.scan_range, Rules.max_turn and Rules.idle_push",
    "ally health left": "a consequence of the damage below it",
    "enemy health left": "a consequence of the damage below it",
    "damage": "damage, bonus_damage, attack_period and range of its opponents; armor and max_shield of the type itself",
    "recovery": "shield_regen and SHIELD_DELAY; heal_rate, heal_cost and range of Medivacs",
}


class Values(NamedTuple):
    """One number of every battle; battles without it do not count."""

    values: Float[np.ndarray, " battles"]
    counts: Bool[np.ndarray, " battles"]
    bounds: tuple[float, float]


@dataclass(frozen=True)
class Point:
    """One number in the game and in the simulator: means with intervals, and the mean difference of the same battles."""

    name: str
    battles: int
    game: float
    game_interval: tuple[float, float]
    simulator: float
    simulator_interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]

    @property
    def differs(self) -> bool:
        """Whether the interval of the difference excludes zero."""
        low, high = self.difference_interval
        return low > 0 or high < 0

    @property
    def constants(self) -> str:
        """The constants of the simulator that decide the number."""
        return next(text for start, text in CONSTANTS.items() if self.name.startswith(start))


@dataclass(frozen=True)
class Constant:
    """One number of a unit type, which one observation of the game shows."""

    name: str
    game: float
    simulator: float

    @property
    def differs(self) -> bool:
        """Whether they are different numbers."""
        return abs(self.game - self.simulator) > TOLERANCE


def compare_constants(env: StarCraft2) -> list[Constant]:
    """Spawn units of every type and team in the game, and compare what it says about their types with the simulator's table."""
    env.games.start(1)
    found: dict[str, Constant] = {}
    game, known = env.env.game, set()
    for army in env.env.armies:
        kinds = {(slot < game.num_allies, int(unit_type)) for slot, unit_type in enumerate(army) if unit_type >= 0}
        if not kinds <= known:
            known |= kinds
            state = jax.tree.map(np.asarray, spawn.spawn(jax.numpy.asarray(army), jax.random.key(0), game))
            units = env.games[0].reset(table.placements(state, state.x, state.y, game))
            tags = table.assign_slots(state, units, game)
            found |= {each.name: each for each in _constants(state, units, table.rows_of(units, tags), game)}
    return list(found.values())


def _constants(state: State, units: Units, rows: np.ndarray, game: Game) -> list[Constant]:
    found = []
    for slot in np.flatnonzero(state.unit_type >= 0).tolist():
        number, row = int(state.unit_type[slot]), rows[slot]
        unit, team = game.table.units[number], "ally" if units.owner[row] == ALLY else "enemy"
        pairs = {
            "max_health": (units.health_max[row], unit.max_health),
            "max_shield": (units.shield_max[row], unit.max_shield),
            "radius": (units.radius[row], unit.radius),
            "plane is air": (units.flying[row], unit.plane == AIR),
        }
        of_type = f"of {team} {game.table.names[number]}s"
        found += [Constant(f"{name} {of_type}", float(seen), float(own)) for name, (seen, own) in pairs.items()]
    return found


def compare(env: StarCraft2, script: Callable[..., State], battles: int, key: PRNGKeyArray) -> list[Point]:
    """Play the same battles in the game and in the simulator, with allies that follow a script, and compare them."""
    keys, simulated = key[None], ScriptedStarCraft(env.env, script)
    in_game = rollout.rollout_random_tasks(with_script(env, script), rollout.no_policy, (), battles, keys)
    play = partial(rollout.rollout_random_tasks, simulated, rollout.no_policy, (), battles)
    game, simulator = (measure(_first_seed(played), env.env.game) for played in (in_game, jax.jit(play)(keys)))
    return [_point(name, game[name], simulator[name]) for name in game if game[name].counts.sum() >= MIN_BATTLES]


def measure(played: Trajectory, game: Game) -> dict[str, Values]:
    """Return the numbers of battles, which are the first axis of the trajectories.

    Damage counts health and shield, by the type of the victim, as net loss within a step: what is healed or regenerated in the
    same step is subtracted.
    """
    states, length = played.states, np.asarray(played.valid).sum(axis=1)
    unit_type = np.asarray(states.unit_type)[:, 0]
    hit_points = np.asarray(states.health + states.shield, np.float64)
    lost = np.where(np.asarray(played.valid)[:, :, None], hit_points[:, :-1] - hit_points[:, 1:], 0.0)
    damage, recovery = np.maximum(lost, 0.0).sum(axis=1), np.maximum(-lost, 0.0).sum(axis=1)
    last, every = hit_points[np.arange(len(length)), length], np.ones(len(length), bool)
    ally = np.arange(game.num_units) < game.num_allies
    found = {"win rate": Values(np.asarray(played.won, float), every, FRACTION), "length": Values(length * 1.0, every, AMOUNT)}
    teams = {"ally": ally, "enemy": ~ally}
    for team, members in teams.items():
        fraction = last[:, members].sum(axis=1) / np.maximum(hit_points[:, 0, members].sum(axis=1), 1e-9)
        found[f"{team} health left"] = Values(fraction, every, FRACTION)
    for team, members in teams.items():
        for number, name in enumerate(game.table.names):
            of_type = (unit_type == number) & members
            for label, amount in ((f"damage to {team} {name}s", damage), (f"recovery of {team} {name}s", recovery)):
                found[label] = Values(np.where(of_type, amount, 0.0).sum(axis=1), of_type.any(axis=1), AMOUNT)
    return found


def _first_seed(played: Trajectory) -> Trajectory:
    return jax.tree.map(lambda leaf: leaf[0], played)


def _point(name: str, game: Values, simulator: Values) -> Point:
    counts, numbers = game.counts, []
    difference = game.values - simulator.values, (-float("inf"), float("inf"))
    for values, bounds in ((game.values, game.bounds), (simulator.values, simulator.bounds), difference):
        spread = stats.spread(values[counts], bounds)
        assert spread is not None
        numbers += [float(values[counts].mean()), (float(spread.low), float(spread.high))]
    return Point(name, int(counts.sum()), *numbers)
