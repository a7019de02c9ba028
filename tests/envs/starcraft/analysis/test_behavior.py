"""Behavior counts of situations that can be counted by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import orders
from refil.envs.starcraft.analysis import behavior
from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft, play
from refil.envs.starcraft.scripts import nearest
from refil.types import Trajectory
from tests.envs.starcraft.scenes import game, place

FOCUS, WEAKEST = "attack an enemy that another agent attacks", "attack the weakest enemy in range"
RETREAT, CHASED = "retreat while reloading (ranged)", "retreat from a close melee enemy while reloading (ranged)"
DAMAGED, HEALER = "retreat when damaged and attacked", "attack a healer in range"
SPLASH, WAIT = "keep away from splash damage (melee)", "wait for enemies in sight but out of weapon range"
CHASE, OUTNUMBER = "make an enemy chase its target", "have more units in weapon range of an enemy than the enemy"


def counted(units, allies, **given):
    arena = game(allies, len(units))
    counts = behavior.count(place(units, arena, **given), arena)
    return {name: tuple(np.asarray(count)) for name, count in counts.items()}


def test_two_of_three_agents_attack_the_same_enemy():
    units = [("marine", 10, 15), ("marine", 10, 17), ("marine", 10, 19), ("marine", 14, 16), ("marine", 14, 18)]
    found = counted(units, 3, target=[3, 3, 4, -1, -1], health=[45, 45, 45, 45, 20])
    assert found[FOCUS] == (3, 2)
    assert found[WEAKEST] == (3, 1)


def test_a_single_attacker_has_no_opportunity_to_focus():
    found = counted([("marine", 10, 16), ("marine", 14, 16)], 1, target=[1, -1])
    assert found[FOCUS] == (0, 0)
    assert found[WEAKEST] == (0, 0)  # a single enemy is no choice


@pytest.mark.parametrize(("goal", "taken"), [(8.0, 1), (12.0, 0)])
@pytest.mark.parametrize(("cooldown", "opportunities"), [(12.0, 1), (3.0, 0)])
def test_ranged_units_retreat_while_reloading(goal, taken, cooldown, opportunities):
    units = [("stalker", 10, 16), ("zealot", 14, 16)]
    found = counted(units, 1, moving=[1, 0], goal_x=[goal, 14], goal_y=[16, 16], cooldown=[cooldown, 0])
    assert found[RETREAT] == (opportunities, taken * opportunities)


@pytest.mark.parametrize(("enemy", "at", "opportunities"), [("zealot", 13, 1), ("zealot", 15, 0), ("stalker", 13, 0)])
def test_ranged_units_retreat_from_a_close_melee_enemy(enemy, at, opportunities):
    units = [("stalker", 10, 16), (enemy, at, 16)]
    found = counted(units, 1, moving=[1, 0], goal_x=[8, at], goal_y=[16, 16], cooldown=[12, 0])
    assert found[CHASED] == (opportunities, opportunities)
    assert found[RETREAT] == (1, 1)


@pytest.mark.parametrize(
    ("health", "shield", "target", "opportunities"),
    [(30, 0, 0, 1), (30, 0, -1, 0), (80, 80, 0, 0), (80, 0, 0, 0), (79, 0, 0, 1)],
)
@pytest.mark.parametrize(("goal", "taken"), [(8.0, 1), (12.0, 0)])
def test_damaged_units_that_are_attacked_retreat(health, shield, target, opportunities, goal, taken):
    units = [("stalker", 10, 16), ("zealot", 14, 16)]
    given = {"moving": [1, 0], "goal_x": [goal, 14], "goal_y": [16, 16], "target": [-1, target]}
    found = counted(units, 1, health=[health, 100], shield=[shield, 50], **given)
    assert found[DAMAGED] == (opportunities, taken * opportunities)


def test_attacks_on_healers_are_counted_where_others_are_in_range():
    units = [("marine", 10, 16), ("marine", 10, 18), ("medivac", 14, 16), ("marine", 14, 18)]
    assert counted(units, 2, target=[2, 3, -1, -1])[HEALER] == (2, 1)
    assert counted(units[:2] + units[3:], 2, target=[2, 2, -1])[HEALER] == (0, 0)


@pytest.mark.parametrize(("at", "opportunities"), [(14, 0), (17, 1), (22, 0)])  # weapon range 5, sight 9
@pytest.mark.parametrize(("goal", "taken"), [(10, 1), (12, 0), (8, 1)])
def test_marines_wait_for_enemies_that_they_see(at, opportunities, goal, taken):
    units = [("marine", 10, 16), ("zealot", at, 16)]
    found = counted(units, 1, moving=[1, 0], goal_x=[goal, at], goal_y=[16, 16])
    assert found[WAIT] == (opportunities, opportunities * taken)


@pytest.mark.parametrize(("at", "chases"), [(10.5, 0), (13, 1)])
def test_a_zealot_chases_a_target_out_of_its_reach(at, chases):
    units = [("marine", 10, 16), ("marine", 10, 20), ("zealot", at, 16)]
    assert counted(units, 2, target=[-1, -1, 0])[CHASE] == (1, chases)
    assert counted(units, 2, target=[-1, -1, -1])[CHASE] == (0, 0)


def test_units_in_weapon_range_are_compared_with_those_of_the_enemy():
    units = [("marine", 10, 16), ("marine", 10, 17), ("zealot", 13, 16)]
    assert counted(units, 2)[OUTNUMBER] == (1, 1)  # two Marines reach the Zealot, which reaches nobody
    assert counted([units[0], ("marine", 2, 2), ("zealot", 10.5, 16)], 2)[OUTNUMBER] == (1, 0)  # one each
    assert counted([("marine", 2, 2), units[2]], 1)[OUTNUMBER] == (0, 0)


@pytest.mark.parametrize(("orders", "held"), [({}, 1), ({"target": [1, -1]}, 0), ({"moving": [1, 0], "goal_x": [12, 15]}, 0)])
def test_zealots_keep_away_from_a_colossus(orders, held):
    given = {"goal_x": [10, 15], "goal_y": [16, 16]} | orders
    assert counted([("zealot", 10, 16), ("colossus", 15, 16)], 1, **given)[SPLASH] == (1, held)
    assert counted([("zealot", 10, 16), ("stalker", 15, 16)], 1, **given)[SPLASH] == (0, 0)


@pytest.mark.slow
def test_a_script_is_counted_until_its_battle_is_over():
    module = plugins.load("refil.envs", "2m_vs_2m")
    env = module.build(module.Config(limit=30))
    keys = jax.random.split(jax.random.key(0), 2)
    first = jax.vmap(env.reset, in_axes=(None, 0))(env.tasks[0], keys)
    scripted_env = ScriptedStarCraft(env, nearest.orders)
    found = jax.jit(lambda: behavior.count_script(scripted_env, play(scripted_env, first, keys)))()
    opportunities, taken = np.asarray(found[FOCUS])
    assert 0 < taken <= opportunities < 2 * 2 * 30
    assert int(found[HEALER][0]) == 0


def test_timesteps_after_the_end_of_an_episode_are_not_counted():
    module = plugins.load("refil.envs", "2m_vs_1m")
    env = module.build(module.Config())
    start = env.reset(env.tasks[0], jax.random.key(0))
    close = replace(start, x=jnp.array([10.0, 10.0, 14.0]), y=jnp.array([15.0, 17.0, 16.0]))
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (1, 3, *leaf.shape)), close)
    attack = jnp.full((1, 2, 2), orders.FIRST_TARGET, jnp.int8)

    def counts(valid):
        zeros = jnp.zeros((1, 2))
        key = jax.random.key_data(jax.random.split(jax.random.key(0), 1))
        flags = jnp.zeros(1, bool)
        trajectories = Trajectory(states, attack, zeros, zeros > 0, jnp.array([valid]), flags, jnp.zeros(1, int), key)
        return behavior.count_team(env, trajectories)

    once, twice = counts([True, False]), counts([True, True])
    assert np.asarray(once[FOCUS]).tolist() == [2, 2]
    assert np.asarray(twice[FOCUS]).tolist() == [4, 4]
