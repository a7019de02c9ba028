"""Numbers of battles in the game and in the simulator, and their differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.sc2 import fidelity
from refil.envs.sc2.fidelity import Values
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios, spawn
from refil.envs.starcraft.config import Config
from refil.types import Trajectory
from tests.envs.sc2.in_process import environment, with_constants

STALKERS = starcraft.build(scenarios.custom("1s"), Config())


def battle(health, shield, won: bool) -> Trajectory:
    """Return a battle of a Stalker against another one, from the health and shield of both after every step."""
    slots = np.zeros(2, np.int8), np.ones(2, np.float32), np.ones(2, np.float32), np.arange(2)
    first = spawn.idle_state(*map(jnp.asarray, slots), STALKERS.game)
    steps = len(health) - 1
    states = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * (steps + 2)), first)
    for name, values in (("health", health), ("shield", shield)):
        object.__setattr__(states, name, np.array([*values, [0, 0]], np.float32))
    padded = np.arange(steps + 1) < steps
    actions, rewards = np.zeros((steps + 1, 1), np.int32), np.zeros(steps + 1, np.float32)
    rest = actions, rewards, ~padded, padded, np.array(won), np.array(0), np.zeros(2, np.uint32)
    return Trajectory(states, *map(jnp.asarray, rest))


def test_damage_and_recovery_are_counted_step_by_step():
    one = battle([[80, 80], [80, 70], [60, 0]], [[80, 80], [50, 0], [52, 0]], won=True)
    played = jax.tree.map(lambda leaf: np.asarray(leaf)[None], one)
    found = {
        name: (values.values.tolist(), values.counts.tolist())
        for name, values in fidelity.measure(played, STALKERS.game).items()
    }
    assert found == {
        "win rate": ([1.0], [True]),
        "length": ([2.0], [True]),
        "ally health left": ([(60 + 52) / 160], [True]),
        "enemy health left": ([0.0], [True]),
        "damage to ally stalkers": ([30.0 + 18.0], [True]),
        "recovery of ally stalkers": ([0.0], [True]),
        "damage to enemy stalkers": ([90.0 + 70.0], [True]),
        "recovery of enemy stalkers": ([0.0], [True]),
    }


def test_a_difference_is_that_of_the_same_battles():
    counts, game = np.array([True] * 5 + [False]), np.array([3.0, 5.0, 4.0, 6.0, 7.0, 99.0])
    close = fidelity._point("length", Values(game, counts, fidelity.AMOUNT), Values(game - 1.0, counts, fidelity.AMOUNT))
    assert (close.battles, close.game, close.simulator, close.difference) == (5, 5.0, 4.0, 1.0)
    assert close.difference_interval == (1.0, 1.0)
    assert close.differs
    assert "Rules.scan_range" in close.constants
    other = Values(game[[4, 3, 2, 1, 0, 5]], counts, fidelity.AMOUNT)
    noisy = fidelity._point("length", Values(game, counts, fidelity.AMOUNT), other)
    assert not noisy.differs


def test_a_constant_that_is_another_in_the_game_is_marked():
    """A Marine of the game deals 9 damage instead of 6 before the Zealot gets to it."""
    nearest = plugins.load("refil.envs.starcraft.scripts", "nearest").orders
    env = environment("1m_vs_1z", games=8, change=with_constants("marine", damage=9.0))
    points = {point.name: point for point in fidelity.compare(env, nearest, 8, jax.random.key(0))}
    wrong = points["damage to enemy zealots"]
    assert wrong.differs
    assert 1.3 < wrong.game / wrong.simulator < 1.7
    assert not points["damage to ally marines"].differs  # it dies in both
    assert not any(constant.differs for constant in fidelity.compare_constants(env))


def test_what_one_observation_says_about_unit_types_is_compared_exactly():
    same = fidelity.compare_constants(environment("3-8MMM", games=1))
    names = {f"max_health of {team} {name}s" for team in ("ally", "enemy") for name in ("marine", "marauder", "medivac")}
    assert names <= {constant.name for constant in same}
    assert len(same) == 6 * 4
    assert not any(constant.differs for constant in same)
    change = with_constants("zealot", max_shield=60.0, radius=0.75)
    other = fidelity.compare_constants(environment("1s_vs_1z", games=1, change=change))
    assert [(each.name, each.game, each.simulator) for each in other if each.differs] == [
        ("max_shield of enemy zealots", 60.0, 50.0),
        ("radius of enemy zealots", 0.75, 0.5),
    ]


@pytest.mark.slow
def test_the_simulator_is_close_to_itself():
    nearest = plugins.load("refil.envs.starcraft.scripts", "nearest").orders
    points = {point.name: point for point in fidelity.compare(environment("2m", games=8), nearest, 40, jax.random.key(0))}
    assert set(points) >= {"win rate", "length", "damage to ally marines", "damage to enemy marines"}
    low, high = points["length"].difference_interval
    assert low < 2
    assert high > -2
    assert abs(points["length"].difference) < 2
    assert points["length"].battles == 40
