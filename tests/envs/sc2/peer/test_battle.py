"""Simulated battles behind a peer: commands mean to the simulator what they mean to the game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.sc2.peer import battle as battles
from refil.envs.sc2.peer.battle import Battle, Simulator
from refil.envs.sc2.records import ALLY, ATTACK, ENEMY, HEAL, MOVE, PASSIVE_IDS, STOP, Command, Placement
from refil.envs.starcraft import env, orders, scenarios
from refil.envs.starcraft.config import Config

MARINE, MARAUDER, MEDIVAC = 48, 51, 54
ALLIES = {name: PASSIVE_IDS[name] for name in ("marine", "marauder", "medivac")}


@pytest.fixture(scope="module")
def simulator():
    """One Marine, one Marauder and one Medivac a side, without chance."""
    return Simulator(env.build(scenarios.custom("1m1M1v"), Config(jitter=False)))


@pytest.fixture
def battle(simulator):
    battle = Battle(simulator, seed=0)
    battle.spawn(
        [
            Placement(ALLIES["marauder"], ALLY, 14.0, 16.0),
            Placement(ALLIES["marine"], ALLY, 14.0, 17.0),
            Placement(ALLIES["medivac"], ALLY, 14.0, 18.0),
            Placement(MARINE, ENEMY, 18.0, 16.0),
            Placement(MARAUDER, ENEMY, 18.0, 17.0),
            Placement(MEDIVAC, ENEMY, 18.0, 18.0),
        ]
    )
    return battle


def give(battle, ability, slot, target=None, position=None):
    tag = None if target is None else int(battle.tags[target])
    return battle.command(Command(ability, (int(battle.tags[slot]),), tag, position), commands_enemies=True)


def test_commands_mean_what_actions_mean_in_the_environment(battle, simulator):
    """Eight ticks after commands equal those after the same actions from the same state."""
    for slot in (3, 4, 5):
        give(battle, ATTACK, slot, position=(14.0, 17.0))
    tags = np.array([3, 4, 5, 0, 1, 2], np.int16)  # enemies have the first ones
    state = jax.tree.map(jnp.asarray, replace_tags(battle.state, tags))
    actions = jnp.array([orders.FIRST_TARGET, orders.NORTH, orders.FIRST_TARGET + 4], jnp.int32)
    ordered = jax.jit(simulator.env.with_orders)(state, actions)
    expected = simulator.run(ordered, np.zeros(6, np.float32), 8)
    give(battle, ATTACK, 0, target=3)
    give(battle, MOVE, 1, position=(14.0, 17.0 + 2.0))
    give(battle, HEAL, 2, target=1)
    battle.advance(8)
    for name in ("x", "y", "health", "shield", "energy", "cooldown", "target", "moving", "attack_moving"):
        np.testing.assert_allclose(getattr(battle.state, name), getattr(expected, name), atol=1e-5, err_msg=name)


def replace_tags(state, tags):
    copied = jax.tree.map(np.array, state)
    copied.tag[:] = tags
    return copied


def test_a_refused_order_leaves_the_last_one(battle):
    assert give(battle, MOVE, 0, position=(10.0, 16.0)) == battles.SUCCESS
    assert give(battle, ATTACK, 0, target=5) == battles.BAD_TARGET  # a Marauder cannot hit what flies
    assert give(battle, HEAL, 0, target=1) == battles.BAD_TARGET
    assert give(battle, ATTACK, 2, target=3) == battles.BAD_TARGET  # a Medivac has no weapon
    assert give(battle, ATTACK, 0, target=1) == battles.BAD_TARGET  # of the same team
    assert battle.state.moving[0]
    assert battle.state.goal_x[0] == 10.0


def test_orders_to_and_at_unknown_units_and_unknown_abilities_are_refused(battle):
    assert battle.command(Command(STOP, (12345,)), True) == battles.ERROR
    assert battle.command(Command(ATTACK, (int(battle.tags[0]),), 12345), True) == battles.BAD_TARGET
    assert give(battle, 999, 0) == battles.NOT_SUPPORTED
    assert give(battle, MOVE, 0) == battles.NOT_SUPPORTED  # a move needs a position


def test_enemies_obey_only_after_the_player_took_control(battle):
    command = Command(STOP, (int(battle.tags[3]),))
    assert battle.command(command, commands_enemies=False) == battles.NOT_YOURS
    assert battle.command(command, commands_enemies=True) == battles.SUCCESS


def test_stopped_enemies_still_defend_themselves_and_stopped_allies_do_not(battle):
    for slot in range(6):
        give(battle, STOP, slot)
    battle.advance(8)
    assert battle.state.target[:3].tolist() == [-1, -1, -1]
    assert (battle.state.target[3:5] >= 0).all()
    assert battle.state.health[3:].tolist() == [45.0, 125.0, 150.0]
    assert battle.state.health[:3].sum() < 45 + 125 + 150


def test_killed_units_are_gone_and_their_slots_are_used_again(battle):
    tags = battle.tags.copy()
    battle.kill([int(tags[0]), int(tags[3])])
    assert battle.alive() == [1, 2, 4, 5]
    assert battle.dead == [int(tags[0]), int(tags[3])]
    with pytest.raises(ValueError, match="no room for another unit of player 1"):
        battle.spawn([Placement(ALLIES["marine"], ALLY, 5.0, 5.0)] * 2)
    battle.spawn([Placement(ALLIES["marine"], ALLY, 5.0, 5.0)])
    assert battle.alive() == [0, 1, 2, 4, 5]
    assert battle.tags[0] not in tags
    assert battle.state.health[0] == 45.0


def test_a_unit_that_dies_in_battle_is_reported(battle):
    battle.state.health[0] = 1.0
    give(battle, ATTACK, 3, target=0)
    battle.advance(8)
    assert 0 not in battle.alive()
    assert battle.dead == [int(battle.tags[0])]
    assert battle.tick == 8
