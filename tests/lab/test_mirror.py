"""Mirrored battles."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from refil.lab import battle, field, mirror
from refil.lab.battle import Battle
from refil.lab.commanders import Scripted


def test_sides_swap_and_references_follow(units):
    state = field.first_state(units, 12)
    state = replace(state, target=state.target.at[0].set(13).at[13].set(2), attacker=state.attacker.at[14].set(0))
    swapped = mirror.mirror(state)
    assert swapped.x[:3].tolist() == [18, 18, 18]
    assert swapped.x[12:15].tolist() == [13, 13, 13]
    assert int(swapped.target[12]) == 1  # the first ally, now an enemy, aims at what was the second enemy
    assert int(swapped.target[1]) == 14
    assert int(swapped.target[2]) == -1
    assert int(swapped.attacker[2]) == 12
    assert swapped.tag[:3].tolist() == [12, 13, 14]  # allies have the last tags on either side
    assert swapped.tag[12:16].tolist() == [0, 1, 2, -1]
    jax.tree.map(np.testing.assert_array_equal, mirror.mirror(swapped), state)


def test_a_state_can_be_combined_of_two(units):
    state = field.first_state(units, 12)
    other = replace(state, goal_x=jnp.full(24, 5.0))
    combined = mirror.combine(state, other)
    assert combined.goal_x[:12].tolist() == state.goal_x[:12].tolist()
    assert combined.goal_x[12:].tolist() == [5.0] * 12


def test_a_mirrored_battle_is_the_mirror_image(situation, monkeypatch):
    """With the same random numbers for all units, it makes no difference on which side a script commands."""
    monkeypatch.setattr(field, "jitter_numbers", lambda units, size: np.zeros(2 * size, np.int32))
    script, engine = Scripted("focus"), Scripted("attack_move")
    swapped = [unit | {"team": "enemy" if unit["team"] == "ally" else "ally"} for unit in situation]
    one = battle.play(Battle(field.parse(situation), script, engine, 3))
    other = battle.play(Battle(field.parse(swapped), engine, script, 3))
    assert one.length == other.length > 10
    assert {one.result, other.result} == {1, -1}
    image = jax.vmap(mirror.mirror)(other.states)
    for name in ("x", "y", "health", "shield", "cooldown"):
        np.testing.assert_array_equal(getattr(image, name), getattr(one.states, name), err_msg=name)
