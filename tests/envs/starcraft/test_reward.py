"""Rewards and ends, worked by hand; T25 and T26 of docs/fidelity.md."""

from dataclasses import replace

import jax.numpy as jnp
import pytest

from refil import plugins
from refil.envs.starcraft import reward, spawn


def fresh(name: str, task: str, **options):
    module = plugins.load("refil.envs", name)
    battle = module.build(module.Config(**options))
    kind = jnp.asarray(battle.tasks[battle.task_names.index(task)])
    place = 2.0 + jnp.arange(len(kind))
    return battle, spawn.still(kind, place, place, jnp.arange(len(kind)), battle.game)


def with_health(world, slots, health, shield=0.0):
    return replace(world, health=world.health.at[slots].set(health), shield=world.shield.at[slots].set(shield))


def test_a_zealot_killed_at_once_is_worth_its_life_and_a_bonus():
    battle, before = fresh("3-8sz", "2s1z")
    after = with_health(before, 8, 0.0)
    assert battle.game.table.names[int(before.kind[8])] == "zealot"
    assert float(battle.outcome(before, after).reward) == pytest.approx(2.064516, abs=1e-6)


@pytest.mark.parametrize(("name", "task", "bonus"), [("3-8sz", "3s", 2.580645), ("3-8MMM", "3m", 4.301075)])
def test_a_win_is_worth_a_bonus(name, task, bonus):
    battle, world = fresh(name, task)
    dead = with_health(world, slice(8, None), 0.0)
    got = battle.outcome(dead, dead)
    assert float(got.reward) == pytest.approx(bonus, abs=1e-6)
    assert bool(got.won)


@pytest.mark.parametrize(("absolute", "expected"), [(True, 0.064516), (False, -0.064516)])
def test_shields_that_come_back_count_as_harm_only_in_absolute_terms(absolute, expected):
    battle, world = fresh("3-8sz", "5z", absolute_reward=absolute)
    before = replace(world, shield=world.shield.at[8:13].add(-5.0))
    after = replace(world, shield=world.shield.at[8:13].add(-4.0))
    assert float(battle.outcome(before, after).reward) == pytest.approx(expected, abs=1e-6)


ENDS = [
    ("3-8sz", "3s", "all", "all", reward.BOTH_DEAD),
    ("3-8MMM", "3m2v", "all", "all", reward.LOST),
    ("3-8MMM", "3m2v", "none", "fighters", reward.WON),
    ("3-8MMM", "3m2v", "fighters", "none", reward.LOST),
    ("3-8MMM", "3m2v", "fighters", "fighters", reward.LOST),
    ("3-8sz", "3s", "none", "all", reward.WON),
    ("3-8sz", "3s", "all", "none", reward.LOST),
    ("3-8sz", "3s", "none", "none", reward.UNDECIDED),
]


@pytest.mark.parametrize(("name", "task", "allies", "enemies", "expected"), ENDS)
def test_ends(name, task, allies, enemies, expected):
    battle, world = fresh(name, task)
    dead = jnp.zeros_like(world.kind, bool)
    heals = battle.game.table[world.kind].heals
    side = jnp.arange(len(dead)) < battle.game.allies
    for who, its in ((allies, side), (enemies, ~side)):
        dead |= {"all": its, "none": dead, "fighters": its & ~heals}[who]
    world = replace(world, health=jnp.where(dead, 0.0, world.health))
    assert int(reward.outcome(world, battle.game, healers_alone_lose=True)) == expected


def test_without_the_rule_medivacs_fight_on():
    battle, world = fresh("3-8MMM", "3m2v", healers_alone_lose=False)
    world = with_health(world, slice(8, 11), 0.0)
    assert int(reward.outcome(world, battle.game, healers_alone_lose=False)) == reward.UNDECIDED
    assert not bool(battle.outcome(world, world).terminated)


def test_out_of_time_is_an_end_and_no_win():
    battle, world = fresh("3-8sz", "3s")
    late = replace(world, time=jnp.asarray(150, jnp.int16))
    got = battle.outcome(world, late)
    assert bool(got.terminated)
    assert not bool(got.won)
    assert float(got.reward) == 0
    assert not bool(battle.outcome(world, replace(world, time=jnp.asarray(149, jnp.int16))).terminated)
