"""Scripted battles: scripts do what they say, and two like armies under one rule are even."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import env, orders, scenarios, tactics
from refil.envs.starcraft.analysis import scripted
from refil.envs.starcraft.config import Config
from tests.envs.starcraft import scenes

SCRIPTS = "refil.envs.starcraft.scripts"


@cache
def fought(armies: str, script: str, episodes: int, profile: str = "smac", seed: int = 0, **options):
    made = env.build(scenarios.free(armies), Config(profile=profile, **options))
    keys = jax.random.split(jax.random.key(seed), episodes)
    worlds = jax.jit(jax.vmap(partial(made.reset, made.tasks[0])))(keys)
    command = plugins.load(SCRIPTS, script).command
    return made, jax.jit(lambda worlds, keys: scripted.fight(made, command, worlds, keys))(worlds, keys)


def wins(armies: str, script: str, episodes: int, **options) -> float:
    return scripted.summary(*fought(armies, script, episodes, **options))["win_rate"]


@pytest.mark.parametrize("script", plugins.names(SCRIPTS))
def test_every_script_fights_to_the_end(script):
    result = scripted.summary(*fought("2s1z", script, 8))
    rates = sum(result[f"{name}_rate"] for name in ("win", "loss", "draw", "timeout"))
    assert rates == pytest.approx(1.0)
    assert 1 <= result["length_mean"] <= 150
    assert 0 <= result["ally_health_left_mean"] <= 1


ARMIES = ("3s2z", "1c2s2z", "4m2M1v", "6m")


def test_like_armies_under_one_rule_are_even():
    """200 battles, half of them won within sampling error (2.6 standard deviations), draws aside."""
    results = np.concatenate([np.asarray(fought(army, "attack_move", 50)[1].result) for army in ARMIES])
    decided = results[np.abs(results) == 1]
    assert len(decided) >= 190
    assert abs((decided == 1).mean() - 0.5) <= 2.6 * 0.5 / len(decided) ** 0.5


def test_it_makes_no_difference_in_which_slots_an_army_is():
    """The same two armies, each on either side: the stronger one wins about as often in both slots."""
    first = np.asarray(fought("3s2z_vs_4s1z", "attack_move", 100)[1].result)
    second = -np.asarray(fought("4s1z_vs_3s2z", "attack_move", 100, seed=1)[1].result)
    spread = ((first == 1).var() / 100 + (second == 1).var() / 100) ** 0.5
    assert abs((first == 1).mean() - (second == 1).mean()) <= 2.6 * max(spread, 0.05)


def test_kiting_pays_where_standing_does_not():
    assert wins("3s_vs_3z", "nearest", 40) == 0
    assert wins("3s_vs_3z", "kite", 40) > 0.8


def test_a_script_in_a_batch_fights_as_alone():
    made, together = fought("2s1z", "random", 8)
    keys = jax.random.split(jax.random.key(0), 8)
    world = jax.vmap(partial(made.reset, made.tasks[0]))(keys[3:4])
    alone = jax.jit(lambda w, k: scripted.fight(made, plugins.load(SCRIPTS, "random").command, w, k))(world, keys[3:4])
    np.testing.assert_array_equal(alone.ended.health[0], together.ended.health[3])


def chosen(units, allies, script):
    """What a script makes the allies do: action numbers, targets as slots."""
    arena = scenes.game(allies, len(units))
    made = env.Battle(arena, Config(), 150, 1.0, np.zeros((1, len(units)), np.int8), ("x",))
    world = scenes.world(units, arena)
    ordered = plugins.load(SCRIPTS, script).command(made, world, jax.random.key(0))
    return ordered


def test_nearest_and_focus_choose_as_they_say():
    units = [("marine", 10.0, 16.0), ("marine", 13.0, 16.0), ("zealot", 12.0, 18.0)]
    assert int(chosen(units, 1, "nearest").target[0]) == 2
    assert int(chosen(units, 1, "focus").target[0]) == 1


def test_who_may_target_nobody_walks_to_the_nearest():
    ordered = chosen([("marine", 10.0, 16.0), ("marine", 24.0, 18.0)], 1, "nearest")
    assert bool(ordered.going[0])
    assert float(ordered.goal_x[0]) == 12


def test_healers_go_for_the_hurt():
    arena = scenes.game(3, 4)
    made = env.Battle(arena, Config(), 150, 1.0, np.zeros((1, 4), np.int8), ("x",))
    units = [("medivac", 10.0, 16.0), ("marine", 11.0, 16.0), ("marine", 13.0, 16.0), ("marine", 20.0, 16.0)]
    world = scenes.world(units, arena, health=[150, 45, 20, 45])
    actions = tactics.go_for(made, world, tactics.distances(world))
    assert int(orders.tag_owner(world, arena)[actions[0] - orders.FIRST_TARGET]) == 2
    whole = scenes.world(units, arena)
    assert int(tactics.go_for(made, whole, tactics.distances(whole))[0]) == orders.STOP


SMACLITE = [  # what SMAClite does from our starts (docs/fidelity.md): army, script, battles, wins, steps and their spread
    ("3s2z", "nearest", 400, 0.43, 46.5, 7.3),
    ("3s2z", "focus", 200, 0.39, 48.0, 7.5),
    ("5s3z", "nearest", 400, 0.40, 53.6, 7.8),
    ("5s3z", "focus", 200, 0.33, 56.9, 9.1),
    ("1c3s3z", "nearest", 500, 0.50, 52.2, 8.7),
    ("4m2M1v", "nearest", 400, 0.29, 68.3, 40.0),
    ("8m", "nearest", 400, 0.27, 21.5, 2.5),
    ("8m", "focus", 200, 0.32, 24.2, 3.3),
]


@pytest.mark.parametrize(("army", "script", "battles", "won", "steps", "spread"), SMACLITE)
def test_the_smaclite_profile_fights_like_smaclite(army, script, battles, won, steps, spread):
    options = {"profile": "smaclite", "limit": 200, "healers_alone_lose": False}
    result = scripted.summary(*fought(army, script, 100, **options))
    assert abs(result["win_rate"] - won) <= 0.15 + 0.1  # twice the error of 100 battles
    errors = (spread**2 / battles + result["length_std"] ** 2 / 100) ** 0.5
    assert abs(result["length_mean"] - steps) <= max(0.15 * steps, 2 * errors)


def test_jitter_can_be_switched_off():
    made = env.build(scenarios.free("2m"), Config(jitter=False))
    world = made.reset(made.tasks[0], jax.random.key(0))
    one, other = (made.pass_time(world, jax.random.key(seed)) for seed in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert not made.game.rules.jitter
    assert jnp.isfinite(one.x).all()
