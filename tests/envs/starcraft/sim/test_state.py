"""The state of a battle: helpers for arrays over units, with and without batch axes, and inside kernels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import hardware
from refil.envs.starcraft.sim import state as states
from tests.envs.starcraft import scenes

GAME = scenes.game(2, 3)
KERNEL = replace(GAME, in_kernel=True)


def test_units_are_present_when_dead_and_alive_with_health():
    state = scenes.place([("marine", 1, 1), ("marine", 2, 2), ("marine", 3, 3)], GAME, health=[45.0, 0.0, 1.0])
    np.testing.assert_array_equal(state.present, [True, True, True])
    np.testing.assert_array_equal(state.alive, [True, False, True])
    np.testing.assert_array_equal(replace(state, unit_type=jnp.array([0, -1, 0])).present, [True, False, True])


def test_slots_belong_to_allies_first_and_opponents_are_pairs_of_both():
    np.testing.assert_array_equal(GAME.is_enemy, [False, False, True])
    np.testing.assert_array_equal(GAME.opponents, [[False, False, True], [False, False, True], [True, True, False]])


def test_there_are_as_many_tags_as_slots_unless_the_game_has_more():
    assert (GAME.ally_tags, GAME.enemy_tags, GAME.num_tags) == (2, 1, 3)
    assert (replace(GAME, tags=5).ally_tags, replace(GAME, tags=5).num_tags) == (5, 10)


@pytest.mark.parametrize("game", [GAME, KERNEL], ids=["arrays", "kernel"])
def test_values_are_those_of_the_target_in_every_battle(game):
    values, target = jnp.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), jnp.array([[2, 0], [-1, 2], [1, 1]])
    np.testing.assert_array_equal(states.at_target(values, target, game), [[3, 4], [1, 6], [2, 5]])
    np.testing.assert_array_equal(states.at_target(values[:, 0], target[:, 0], game), [3, 1, 2])


@pytest.mark.parametrize("game", [GAME, KERNEL], ids=["arrays", "kernel"])
def test_the_other_unit_with_the_least_cost_is_the_first_of_several(game):
    cost = jnp.array([[5.0, 1.0, jnp.inf], [5.0, 0.0, jnp.inf], [7.0, 0.0, jnp.inf]])  # [other, unit]
    np.testing.assert_array_equal(states.argmin(cost, game), [0, 1, 0])


def test_one_unit_is_taken_from_every_battle():
    values = jnp.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    np.testing.assert_array_equal(states.take_unit(values, 1), [2, 5])


@pytest.mark.parametrize("game", [GAME, KERNEL], ids=["arrays", "kernel"])
def test_rows_of_constants_are_applied_one_after_another(game):
    rows = [(2.0, 1), (3.0, -1)]
    result = jax.jit(lambda x: states.apply_rows(lambda carry, factor, term: factor * carry + term, x, rows, game))(1.0)
    assert float(result) == 3 * (2 * 1 + 1) - 1


@pytest.mark.parametrize(("game", "battles", "conditions"), [(GAME, 4, 1), (GAME, 456, 0), (KERNEL, 4, 0)])
def test_small_arrays_of_pairs_are_computed_once_behind_a_condition(game, battles, conditions):
    gaps = jax.random.normal(jax.random.key(0), (3, 3, battles))

    def shorter(gaps):
        return states.compute_once(lambda: gaps - 1, gaps, game)

    np.testing.assert_array_equal(jax.jit(shorter)(gaps), gaps - 1)
    assert str(jax.make_jaxpr(shorter)(gaps)).count("cond[") == conditions * (not hardware.on_gpu())


@pytest.mark.parametrize("batch", [(4,), (5,), (2, 3)])
def test_many_battles_are_simulated_in_parts(batch, monkeypatch):
    monkeypatch.setattr(states, "MOST_PAIRS", 2 * 3**2)
    one = scenes.place([("marine", 1, 1), ("marine", 2, 2), ("marine", 3, 3)], GAME)
    jitter = jax.random.uniform(jax.random.key(0), (3, *batch))
    state = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf.reshape(*leaf.shape, *[1] * len(batch)), (*leaf.shape, *batch)), one
    )
    seen = []

    def walk(state, jitter):
        seen.append(jitter.shape)
        return replace(state, x=state.x + jitter, time=state.time + 1)

    after = states.in_parts(walk, state, jitter)
    expected = replace(state, x=state.x + jitter, time=state.time + 1)
    jax.tree.map(np.testing.assert_array_equal, after, expected)
    assert seen[0] == (jitter.shape if hardware.on_gpu() else (3, 2))


def test_batches_come_last_inside_and_first_outside():
    seen = []

    @states.batches_last
    def shift(values, by):
        seen.append(values.shape)
        return values + by

    values = jnp.arange(6.0).reshape(2, 3)  # two battles of three units
    np.testing.assert_array_equal(jax.vmap(shift, (0, None))(values, jnp.float32(1)), values + 1)
    assert (3, 2) in seen


def test_lengths_of_vectors():
    assert float(states.norm(jnp.float32(3), jnp.float32(4))) == 5
