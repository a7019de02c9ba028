"""What teams do, in situations where it can be counted by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import orders
from refil.envs.starcraft.analysis import behavior
from refil.envs.starcraft.scripts import nearest
from tests.envs.starcraft.scenes import game, world

FOCUS, WEAKEST = "attack one that another attacks", "attack the weakest in reach"
CHASED, HURT = "shooters step back from a fighter close by, reloading", "those hurt and attacked step back"
BACK, HEALER, HELD = "shooters step back while reloading", "attack a healer in reach", "fighters hold back from splash"


def counted(units, allies, **given):
    arena = game(allies, len(units))
    return {habit: tuple(np.asarray(each)) for habit, each in behavior.count(world(units, arena, **given), arena).items()}


def test_two_of_three_attack_the_same():
    units = [("marine", 10, 15), ("marine", 10, 17), ("marine", 10, 19), ("marine", 14, 16), ("marine", 14, 18)]
    found = counted(units, 3, target=[3, 3, 4, -1, -1], health=[45, 45, 45, 45, 20])
    assert found[FOCUS] == (3, 2)
    assert found[WEAKEST] == (3, 1)


def test_one_who_attacks_alone_has_nobody_to_share_with():
    found = counted([("marine", 10, 16), ("marine", 14, 16)], 1, target=[1, -1])
    assert found[FOCUS] == (0, 0)
    assert found[WEAKEST] == (0, 0)  # and no choice


@pytest.mark.parametrize(("goal", "taken"), [(8.0, 1), (12.0, 0)])
@pytest.mark.parametrize(("cooldown", "chances"), [(12.0, 1), (3.0, 0)])
def test_stepping_back_while_reloading(goal, taken, cooldown, chances):
    units = [("stalker", 10, 16), ("zealot", 14, 16)]
    found = counted(units, 1, going=[1, 0], goal_x=[goal, 14], goal_y=[16, 16], cooldown=[cooldown, 0])
    assert found[BACK] == (chances, taken * chances)


@pytest.mark.parametrize(("foe", "at", "chances"), [("zealot", 13, 1), ("zealot", 15, 0), ("stalker", 13, 0)])
def test_stepping_back_from_a_fighter_close_by(foe, at, chances):
    units = [("stalker", 10, 16), (foe, at, 16)]
    found = counted(units, 1, going=[1, 0], goal_x=[8, at], goal_y=[16, 16], cooldown=[12, 0])
    assert found[CHASED] == (chances, chances)
    assert found[BACK] == (1, 1)


@pytest.mark.parametrize(
    ("health", "shield", "target", "chances"), [(30, 0, 0, 1), (30, 0, -1, 0), (80, 80, 0, 0), (80, 0, 0, 0), (79, 0, 0, 1)]
)
@pytest.mark.parametrize(("goal", "taken"), [(8.0, 1), (12.0, 0)])
def test_stepping_back_hurt(health, shield, target, chances, goal, taken):
    units = [("stalker", 10, 16), ("zealot", 14, 16)]
    given = {"going": [1, 0], "goal_x": [goal, 14], "goal_y": [16, 16], "target": [-1, target]}
    found = counted(units, 1, health=[health, 100], shield=[shield, 50], **given)
    assert found[HURT] == (chances, taken * chances)


def test_healers_first():
    units = [("marine", 10, 16), ("marine", 10, 18), ("medivac", 14, 16), ("marine", 14, 18)]
    assert counted(units, 2, target=[2, 3, -1, -1])[HEALER] == (2, 1)
    assert counted(units[:2] + units[3:], 2, target=[2, 2, -1])[HEALER] == (0, 0)


@pytest.mark.parametrize(("orders", "held"), [({}, 1), ({"target": [1, -1]}, 0), ({"going": [1, 0], "goal_x": [12, 15]}, 0)])
def test_zealots_that_hold_back_from_a_colossus(orders, held):
    given = {"goal_x": [10, 15], "goal_y": [16, 16]} | orders
    assert counted([("zealot", 10, 16), ("colossus", 15, 16)], 1, **given)[HELD] == (1, held)
    assert counted([("zealot", 10, 16), ("stalker", 15, 16)], 1, **given)[HELD] == (0, 0)


def test_a_script_is_counted_until_its_battle_is_over():
    module = plugins.load("refil.envs", "2m_vs_2m")
    battle = module.build(module.Config(limit=30))
    keys = jax.random.split(jax.random.key(0), 2)
    first = jax.vmap(battle.reset, in_axes=(None, 0))(battle.tasks[0], keys)
    found = jax.jit(lambda: behavior.of_script(battle, nearest.command, first, keys))()
    chances, taken = np.asarray(found[FOCUS])
    assert 0 < taken <= chances < 2 * 2 * 30
    assert int(found[HEALER][0]) == 0


def test_what_lies_after_an_episodes_end_is_not_counted():
    module = plugins.load("refil.envs", "2m_vs_1m")
    battle = module.build(module.Config())
    start = battle.reset(battle.tasks[0], jax.random.key(0))
    close = replace(start, x=jnp.array([10.0, 10.0, 14.0]), y=jnp.array([15.0, 17.0, 16.0]))
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (1, 3, *leaf.shape)), close)
    attack = jnp.full((1, 2, 2), orders.FIRST_TARGET, jnp.int8)
    once, twice = (behavior.of_team(battle, states, attack, jnp.array([[True, second]])) for second in (False, True))
    assert np.asarray(once[FOCUS]).tolist() == [2, 2]
    assert np.asarray(twice[FOCUS]).tolist() == [4, 4]
