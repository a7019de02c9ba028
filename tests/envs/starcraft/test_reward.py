"""Rewards and results, worked out by hand."""

from dataclasses import replace

import jax.numpy as jnp
import pytest

from refil import plugins
from refil.envs.starcraft import reward, spawn


def fresh(name: str, task: str, **options):
    module = plugins.load("refil.envs", name)
    env = module.build(module.Config(**options))
    unit_type = jnp.asarray(env.tasks[env.task_names.index(task)])
    place = 2.0 + jnp.arange(len(unit_type))
    return env, spawn.idle_state(unit_type, place, place, jnp.arange(len(unit_type)), env.game)


def with_health(state, slots, health, shield=0.0):
    return replace(state, health=state.health.at[slots].set(health), shield=state.shield.at[slots].set(shield))


def test_killing_a_zealot_pays_its_health_and_shield_and_a_bonus():
    env, before = fresh("3-8sz", "2s1z")
    after = with_health(before, 8, 0.0)
    assert env.game.table.names[int(before.unit_type[8])] == "zealot"
    assert float(env.outcome(before, after).reward) == pytest.approx(2.064516, abs=1e-6)


@pytest.mark.parametrize(("name", "task", "bonus"), [("3-8sz", "3s", 2.580645), ("3-8MMM", "3m", 4.301075)])
def test_a_win_pays_a_bonus(name, task, bonus):
    env, state = fresh(name, task)
    dead = with_health(state, slice(8, None), 0.0)
    got = env.outcome(dead, dead)
    assert float(got.reward) == pytest.approx(bonus, abs=1e-6)
    assert bool(got.won)


@pytest.mark.parametrize(("absolute", "expected"), [(True, 0.064516), (False, -0.064516)])
def test_regenerated_shields_count_as_damage_only_in_absolute_rewards(absolute, expected):
    env, state = fresh("3-8sz", "5z", absolute_reward=absolute)
    before = replace(state, shield=state.shield.at[8:13].add(-5.0))
    after = replace(state, shield=state.shield.at[8:13].add(-4.0))
    assert float(env.outcome(before, after).reward) == pytest.approx(expected, abs=1e-6)


RESULTS = [
    ("3-8sz", "3s", "all", "all", reward.BOTH_DEAD),
    ("3-8MMM", "3m2v", "all", "all", reward.LOST),
    ("3-8MMM", "3m2v", "none", "fighters", reward.WON),
    ("3-8MMM", "3m2v", "fighters", "none", reward.LOST),
    ("3-8MMM", "3m2v", "fighters", "fighters", reward.LOST),
    ("3-8sz", "3s", "none", "all", reward.WON),
    ("3-8sz", "3s", "all", "none", reward.LOST),
    ("3-8sz", "3s", "none", "none", reward.UNDECIDED),
]


@pytest.mark.parametrize(("name", "task", "allies", "enemies", "expected"), RESULTS)
def test_battle_results(name, task, allies, enemies, expected):
    env, state = fresh(name, task)
    dead = jnp.zeros_like(state.unit_type, bool)
    heals = env.game.table[state.unit_type].heals
    side = jnp.arange(len(dead)) < env.game.num_allies
    for which, team in ((allies, side), (enemies, ~side)):
        dead |= {"all": team, "none": dead, "fighters": team & ~heals}[which]
    state = replace(state, health=jnp.where(dead, 0.0, state.health))
    assert int(reward.battle_result(state, env.game, healers_alone_lose=True)) == expected


def test_without_the_rule_healers_alone_continue_the_battle():
    env, state = fresh("3-8MMM", "3m2v", healers_alone_lose=False)
    state = with_health(state, slice(8, 11), 0.0)
    assert int(reward.battle_result(state, env.game, healers_alone_lose=False)) == reward.UNDECIDED
    assert not bool(env.outcome(state, state).terminated)


def test_the_time_limit_terminates_a_battle_without_a_win():
    env, state = fresh("3-8sz", "3s")
    late = replace(state, time=jnp.asarray(150, jnp.int16))
    got = env.outcome(state, late)
    assert bool(got.terminated)
    assert not bool(got.won)
    assert float(got.reward) == 0
    assert not bool(env.outcome(state, replace(state, time=jnp.asarray(149, jnp.int16))).terminated)
