"""Scripted battles: the scripts' orders, and statistics of many battles."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import env, orders, reward, scenarios, tactics
from refil.envs.starcraft.analysis import scripted
from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
from refil.envs.starcraft.config import Config
from tests.envs.starcraft import scenes
from tests.slow import all_but

SCRIPTS = "refil.envs.starcraft.scripts"


@cache
def results(armies: str, script: str, episodes: int, profile: str = "smac", seed: int = 0, **options):
    built = env.build(scenarios.custom(armies), Config(profile=profile, **options))
    return built, play(built, script, jax.random.split(jax.random.key(seed), episodes))


def play(built, script, keys):
    scripted_env = ScriptedStarCraft(built, plugins.load(SCRIPTS, script).orders)

    def run(keys):
        first_states = jax.vmap(partial(built.reset, built.tasks[0]))(keys)
        return scripted.battle_results(built, scripted.play(scripted_env, first_states, keys))

    return jax.jit(run)(keys)


def wins(armies: str, script: str, episodes: int, **options) -> float:
    return scripted.summary(*results(armies, script, episodes, **options))["win_rate"]


@pytest.mark.parametrize("script", all_but(("kite",), plugins.names(SCRIPTS)))
def test_every_script_fights_until_the_battle_is_over(script):
    built, found = results("2s1z", script, 8)
    alive = np.asarray(found.last.health) > 0
    allies_left, enemies_left = alive[:, : built.game.num_allies].any(axis=1), alive[:, built.game.num_allies :].any(axis=1)
    undecided = allies_left & enemies_left
    np.testing.assert_array_equal(np.asarray(found.length)[undecided], 150)  # only the time limit ends those
    np.testing.assert_array_equal(np.asarray(found.result) == reward.WON, allies_left & ~enemies_left)
    assert (~undecided).mean() >= (0.0 if script == "random" else 0.5)
    assert scripted.summary(built, found)["ally_health_left_mean"] < 1


ARMIES = ("3s2z", "1c2s2z", "4m2M1v", "6m")


@pytest.mark.slow
def test_equal_armies_under_the_same_rule_win_equally_often():
    """Of 200 battles, draws excluded, half are won within the sampling error (2.6 standard deviations)."""
    outcomes = np.concatenate([np.asarray(results(army, "attack_move", 50)[1].result) for army in ARMIES])
    decided = outcomes[np.abs(outcomes) == 1]
    assert len(decided) >= 190
    assert abs((decided == 1).mean() - 0.5) <= 2.6 * 0.5 / len(decided) ** 0.5


@pytest.mark.slow
def test_the_slots_of_an_army_make_no_difference():
    """The stronger of two armies wins about as often as ally and as enemy."""
    first = np.asarray(results("3s2z_vs_4s1z", "attack_move", 100)[1].result)
    second = -np.asarray(results("4s1z_vs_3s2z", "attack_move", 100, seed=1)[1].result)
    spread = ((first == 1).var() / 100 + (second == 1).var() / 100) ** 0.5
    assert abs((first == 1).mean() - (second == 1).mean()) <= 2.6 * max(spread, 0.05)


@pytest.mark.slow
def test_kiting_wins_battles_that_standing_loses():
    assert wins("3s_vs_3z", "nearest", 40) == 0
    assert wins("3s_vs_3z", "kite", 40) > 0.8


@pytest.mark.slow
def test_a_scripted_battle_in_a_batch_equals_the_battle_alone_and_its_goals_up_to_rounding():
    built, together = results("2s1z", "random", 8)
    alone = play(built, "random", jax.random.split(jax.random.key(0), 8)[3:4])
    for one, many in zip(*map(jax.tree.leaves, (alone, together)), strict=True):
        np.testing.assert_allclose(one[0], many[3], rtol=1e-5)  # goals differ in the last bit
    for name in ("length", "result", "returns"):
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[3])
    np.testing.assert_array_equal(alone.last.health[0], together.last.health[3])


@pytest.mark.slow
def test_ticks_of_a_battle_lead_from_each_recorded_state_to_the_next():
    built = env.build(scenarios.custom("2m"), Config())
    scripted_env = ScriptedStarCraft(built, plugins.load(SCRIPTS, "random").orders)
    keys = jax.random.split(jax.random.key(0), 1)
    first_states = jax.vmap(partial(built.reset, built.tasks[0]))(keys)
    trajectories = jax.jit(partial(scripted.play, scripted_env))(first_states, keys)
    trajectory = jax.tree.map(lambda leaf: leaf[0], trajectories)
    ticks = jax.jit(partial(scripted.all_ticks, scripted_env))(trajectory)
    length = int(trajectory.valid.sum())
    assert ticks.x.shape == (150, 8, 4)
    for name in ("x", "y", "health", "cooldown"):
        recorded, simulated = getattr(trajectory.states, name)[1 : length + 1], getattr(ticks, name)[:length, -1]
        np.testing.assert_allclose(simulated, recorded, atol=1e-4)


def ordered(units, allies, script):
    """Return the state with the orders of a script."""
    arena = scenes.game(allies, len(units))
    built = env.StarCraft(arena, Config(), 150, 1.0, np.zeros((1, len(units)), np.int8), ("x",))
    state = scenes.place(units, arena)
    return plugins.load(SCRIPTS, script).orders(built, state, jax.random.key(0))


def test_nearest_and_focus_choose_the_nearest_and_the_weakest_enemy():
    units = [("marine", 10.0, 16.0), ("marine", 13.0, 16.0), ("zealot", 12.0, 18.0)]
    assert int(ordered(units, 1, "nearest").target[0]) == 2
    assert int(ordered(units, 1, "focus").target[0]) == 1


def test_agents_without_an_available_target_walk_to_the_nearest_enemy():
    state = ordered([("marine", 10.0, 16.0), ("marine", 24.0, 18.0)], 1, "nearest")
    assert bool(state.moving[0])
    assert float(state.goal_x[0]) == 12


def test_healers_target_damaged_allies():
    arena = scenes.game(3, 4)
    built = env.StarCraft(arena, Config(), 150, 1.0, np.zeros((1, 4), np.int8), ("x",))
    units = [("medivac", 10.0, 16.0), ("marine", 11.0, 16.0), ("marine", 13.0, 16.0), ("marine", 20.0, 16.0)]
    state = scenes.place(units, arena, health=[150, 45, 20, 45])
    actions = tactics.attack_or_approach(built, state, tactics.distances(state))
    assert int(orders.slot_of_tag(state, arena)[actions[0] - orders.FIRST_TARGET]) == 2
    undamaged = scenes.place(units, arena)
    assert int(tactics.attack_or_approach(built, undamaged, tactics.distances(undamaged))[0]) == orders.STOP


# SMAClite from our initial states (docs/fidelity.md): army, script, battles, win rate, mean steps, standard deviation.
SMACLITE = [
    ("3s2z", "nearest", 400, 0.43, 46.5, 7.3),
    ("3s2z", "focus", 200, 0.39, 48.0, 7.5),
    ("5s3z", "nearest", 400, 0.40, 53.6, 7.8),
    ("5s3z", "focus", 200, 0.33, 56.9, 9.1),
    ("1c3s3z", "nearest", 500, 0.50, 52.2, 8.7),
    ("4m2M1v", "nearest", 400, 0.29, 68.3, 40.0),
    ("8m", "nearest", 400, 0.27, 21.5, 2.5),
    ("8m", "focus", 200, 0.32, 24.2, 3.3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("army", "script", "battles", "won", "steps", "spread"), SMACLITE)
def test_the_smaclite_profile_fights_like_smaclite(army, script, battles, won, steps, spread):
    options = {"profile": "smaclite", "limit": 200, "healers_alone_lose": False}
    result = scripted.summary(*results(army, script, 100, **options))
    assert abs(result["win_rate"] - won) <= 0.15 + 0.1  # twice the error of 100 battles
    errors = (spread**2 / battles + result["length_std"] ** 2 / 100) ** 0.5
    assert abs(result["length_mean"] - steps) <= max(0.15 * steps, 2 * errors)


def test_jitter_can_be_disabled():
    built = env.build(scenarios.custom("2m"), Config(jitter=False))
    state = built.reset(built.tasks[0], jax.random.key(0))
    one, other = (built.advance(state, jax.random.key(seed)) for seed in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert not built.game.rules.jitter
    assert jnp.isfinite(one.x).all()
