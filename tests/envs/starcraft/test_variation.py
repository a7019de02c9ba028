"""Unit stats that vary from task to task: how multipliers are drawn, and what each of them changes, worked out by hand."""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import refil
from refil import plugins
from refil.envs.starcraft import observe, orders, scene, variation
from refil.envs.starcraft.scenarios import Stat
from refil.envs.starcraft.sim.state import State
from refil.envs.starcraft.sim.unit import VARIED
from refil.envs.starcraft.variation import Variation
from refil.errors import RefilError
from tests.envs.starcraft import scenes
from tests.envs.starcraft.test_env import built, check, play

ALL = tuple(VARIED)
SMALL = {"vary": ALL, "draws": 3}


def varied(units, allies, given, **multipliers):
    """Return undamaged units with these multipliers, one number per unit, and the game; `given` sets fields of the state."""
    arena = scenes.game(allies, len(units))
    state = replace(scenes.place(units, arena, **given), multipliers={s: jnp.array(m) for s, m in multipliers.items()})
    stats = arena.stats(state)
    return replace(state, health=stats.max_health, shield=stats.max_shield), arena


def ticks_until(happened, state, arena) -> int:
    """Return the first tick after which something has happened."""
    for number in range(1, 400):
        state = scenes.one_tick(arena)(state)
        if happened(state):
            return number
    raise AssertionError("it never happened")


def test_options_name_what_can_vary():
    assert set(Stat.__args__) == set(VARIED)


def test_draws_are_reproducible_and_differ_by_seed_task_stat_team_and_type():
    drawn = variation.draw(Variation(0.3, 3, 0), "3s5z", "health", "allies", "s")
    np.testing.assert_allclose(drawn, [1.085072, 0.780453, 0.813722], atol=1e-6)  # never changes
    places = [("3s5z", "health", "allies", "s"), ("3s4z", "health", "allies", "s"), ("3s5z", "damage", "allies", "s")]
    places += [("3s5z", "health", "enemies", "s"), ("3s5z", "health", "allies", "z")]
    first = [variation.draw(Variation(0.3, 1, seed), *place)[0] for seed in (0, 1) for place in places]
    assert len(set(first)) == 10


def test_more_draws_continue_fewer_ones():
    few, many = (variation.draw(Variation(0.3, draws, 5), "3m", "speed", "allies", "m") for draws in (2, 9))
    np.testing.assert_array_equal(few, many[:2])


def test_logarithms_of_multipliers_are_uniform_up_to_the_variation():
    drawn = np.log(variation.draw(Variation(1.0, 10_000, 0), "3m", "range", "enemies", "m")) / np.log(2)
    assert drawn.min() > -1
    assert drawn.max() < 1
    np.testing.assert_allclose(np.histogram(drawn, 4, (-1, 1))[0] / 10_000, 0.25, atol=0.02)


def test_every_draw_is_a_task_with_a_name_of_its_own():
    env = built("2-4m", **SMALL)
    assert env.task_names == tuple(f"{army}#{number}" for army in ("2m", "3m", "4m") for number in range(3))
    armies, multipliers = env.tasks
    assert armies.shape == (9, 8)
    assert set(multipliers) == set(ALL)
    for rows in map(np.asarray, multipliers.values()):
        assert (rows[:3, [2, 3, 6, 7]] == 1).all()  # 2m leaves two slots of each side empty
        for side in (slice(0, 2), slice(4, 6)):
            assert (rows[:3, side] == rows[:3, side][:, :1]).all()
        assert len(set(rows[:, [0, 4]].ravel().tolist())) == 18


def test_a_task_has_the_same_multipliers_in_every_set_and_part_of_it():
    whole, alone = built("3-8sz-varied"), built("3s5z", vary=("speed",))
    held_out = built("3-8sz-varied", tasks="held-out", draws=2)
    assert (len(whole.task_names), len(held_out.task_names)) == (39 * 16, 8 * 2)
    for other, name in ((alone, "3s5z#4"), (held_out, "8z#1")):
        one, two = (env.multipliers["speed"][env.task_names.index(name)] for env in (whole, other))
        np.testing.assert_array_equal(one, two)
    seeds = (built("3s5z", vary=("speed",), draw_seed=seed).multipliers["speed"] for seed in (0, 1))
    assert (next(seeds) != next(seeds)).all()


def test_sizes_and_rewards_do_not_depend_on_the_draws():
    plain, whole = built("3-8sz"), built("3-8sz-varied")
    assert whole.reward_divisor == plain.reward_divisor
    assert whole.spec == replace(plain.spec, features=plain.spec.features + 4)
    assert whole.feature_names == (*plain.feature_names, "extra health", "extra damage", "extra range", "extra speed")


@pytest.mark.parametrize("name", ["3-8sz", pytest.param("3-8MMM", marks=pytest.mark.slow)])
def test_battles_with_multipliers_of_1_are_those_without_to_the_last_bit(name):
    plain, ones = built(name), built(name, vary=ALL, variation=0.0, draws=1)
    chosen, keys = np.arange(0, len(plain.task_names), 7), jax.random.split(jax.random.key(0), 10)[:6]
    rows = [jax.tree.map(lambda leaf: leaf[chosen][:6], env.tasks) for env in (plain, ones)]
    expected, found = (play(env, tasks, keys, 60) for env, tasks in zip((plain, ones), rows, strict=True))
    assert (np.asarray(found[1].multipliers["health"]) == 1).all()
    for name in (field.name for field in fields(State) if field.name != "multipliers"):
        np.testing.assert_array_equal(getattr(found[1], name), getattr(expected[1], name), name)
    jax.tree.map(np.testing.assert_array_equal, found[2:], expected[2:])


def test_units_with_varied_stats_stay_within_their_bounds():
    env = built("3-8sz-varied", variation=1.0, draws=1)
    tasks = jax.tree.map(lambda leaf: leaf[::3], env.tasks)
    check(env, play(env, tasks, jax.random.split(jax.random.key(0), 13), 60))


def test_another_task_needs_no_other_program():
    env = built("2-4m", **SMALL)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    for number in (0, 4, 8):
        state = reset(jax.tree.map(lambda leaf, n=number: leaf[n], env.tasks), jax.random.key(number))
        state, _ = step(state, jnp.ones(4, jnp.int32), jax.random.key(number))
    assert (reset._cache_size(), step._cache_size()) == (1, 1)


# A Marine hits for 6 every 14 ticks, first in tick 1; the other one has 45 health, which takes 8 hits.
@pytest.mark.parametrize(
    ("multipliers", "hits"),
    [({"speed": [1.0, 1.0]}, 8), ({"damage": [2.0, 1.0]}, 4), ({"health": [1.0, 1.5]}, 12), ({"damage": [1.0, 2.0]}, 8)],
)
def test_damage_and_health_decide_how_many_hits_a_kill_takes(multipliers, hits):
    state, arena = varied([("marine", 10, 16), ("marine", 12, 16)], 1, {"target": [1, -1]}, **multipliers)
    assert ticks_until(lambda now: now.health[1] <= 0, state, arena) == 1 + 14 * (hits - 1)


def test_shields_have_the_multiplier_of_health():
    state, _ = varied([("zealot", 10, 16)], 1, {}, health=[1.2])
    assert (float(state.health[0]), float(state.shield[0])) == pytest.approx((120, 60))


# A Zergling walks 2.9531 / 16 per tick. At 1.5 times that it walks 2.21 in a step, more than a move of an ordinary one leads.
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_speed_multiplies_the_distance_walked_in_a_step(factor):
    state, arena = varied([("zergling", 10, 16)], 1, {}, speed=[factor])
    ordered = orders.apply_actions(state, jnp.array([orders.EAST]), arena.stats(state), arena)
    assert float(ordered.goal_x[0]) == pytest.approx(10 + 2 * factor)
    assert float(scenes.after(ordered, arena, 8)[-1].x[0]) == pytest.approx(10 + 8 * factor * 2.9531 / 16, abs=1e-4)


# Edge to edge 5.5 apart. A Marine shoots at 5, after four ticks of 2.25 / 16; or at 6, immediately.
@pytest.mark.parametrize(("factor", "tick"), [(1.0, 4), (1.2, 1)])
def test_a_longer_range_shoots_from_further_away(factor, tick):
    state, arena = varied([("marine", 10, 16), ("marine", 16.25, 16)], 1, {"target": [1, -1]}, range=[factor, 1.0])
    assert ticks_until(lambda now: now.health[1] < 45, state, arena) == tick


@pytest.mark.parametrize(
    ("factor", "distance", "available"), [(1.25, 7.4, True), (1.25, 7.6, False), (2.0, 8.9, True), (2.0, 9.1, False)]
)
def test_targets_are_limited_by_the_multiplier_of_the_range_and_by_sight(factor, distance, available):
    state, arena = varied([("marine", 10, 16), ("marine", 10 + distance, 16)], 1, {}, range=[factor, 1.0])
    assert bool(orders.available_actions(state, arena.stats(state), arena)[0, orders.FIRST_TARGET]) == available


def test_healers_heal_faster_with_more_damage_and_up_to_the_health_of_their_patient():
    units = [("medivac", 10, 16), ("marine", 11, 16)]
    state, arena = varied(units, 2, {"target": [1, -1]}, damage=[2.0, 1.0], health=[1.0, 2.0])
    state = replace(state, health=state.health.at[1].set(88.0))
    health = [float(now.health[1]) for now in scenes.after(state, arena, 3)]
    assert health == pytest.approx([88 + 18 / 16, 90, 90])


def test_agents_observe_multipliers_and_health_as_a_fraction_of_the_varied_maximum():
    units = [("marine", 12, 16), ("marine", 14, 16), ("marine", 16, 16)]
    state, arena = varied(units, 2, {}, health=[0.8, 1.5, 2.0], speed=[1.0, 1.1, 0.9])
    state = replace(state, health=jnp.array([0.0, 33.75, 90.0]))
    obs, names = observe.observe(state, arena), observe.feature_names(arena, ("health", "speed"))
    dead, ally, enemy = (dict(zip(names, row, strict=True)) for row in np.asarray(obs.entities).tolist())
    assert (ally["health"], ally["extra health"], ally["extra speed"]) == pytest.approx((0.5, 0.5, 0.1))
    assert (enemy["health"], enemy["extra health"], enemy["extra speed"]) == pytest.approx((1.0, 1.0, -0.1))
    assert (dead["extra health"], dead["extra speed"]) == (0, 0)


def test_drawings_show_the_varied_stats():
    state, arena = varied([("marine", 12, 16), ("marine", 14, 16)], 1, {}, health=[1.2, 1.0], range=[1.5, 1.0])
    drawn = scene.scene(state, arena)
    assert drawn.circles[0].values[0] == ("health", "54 of 54")
    assert ("health multiplier", "1.20") in drawn.circles[0].values
    assert drawn.circles[0].bars[0][0] == pytest.approx(1)
    assert dict(drawn.circles[0].ranges) == {"weapon range": 7.5 + 0.75, "range of target actions": 9.0, "sight": 9.0}
    assert [level.value for level in drawn.levels] == pytest.approx([1, 1])


def test_any_set_can_vary_and_bad_options_are_refused():
    assert refil.make("3s_vs_4z", vary=("range",), draws=2).task_names == ("3s_vs_4z#0", "3s_vs_4z#1")
    for options, message in (
        ({"vary": ("armor",)}, "should be one of health, damage, range, speed, not armor"),
        ({"variation": 5.0}, "env.variation must be from 0 to 3, not 5"),
        ({"draws": 0}, "env.draws must be from 1 to 10,000, not 0"),
    ):
        with pytest.raises(RefilError, match=message):
            refil.make("3m", **options)


def test_the_real_game_refuses_variation_in_a_sentence():
    module = plugins.load("refil.envs", "sc2:3-8sz-varied")
    with pytest.raises(RefilError, match="units have fixed stats; health, damage, range, speed vary in the simulator only"):
        module.build(module.Config())
    with pytest.raises(RefilError, match="env has no option 'vary'"):
        refil.make("sc2:3-8sz", vary=("health",))
