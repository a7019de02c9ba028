"""Actions and orders as commands of the game's protocol."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.envs.sc2 import commands, table
from refil.envs.sc2.records import ATTACK, HEAL, MOVE, STOP, Command
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios, spawn
from refil.envs.starcraft.config import Config

TAGS = np.array([100, 101, 102, 103], np.uint64)


def medical():
    """Return the game of a Marine and a Medivac against the same, and a state of it."""
    game = starcraft.build(scenarios.custom("1m1v"), Config()).game
    unit_type, tag = np.array([0, 1, 0, 1], np.int8), np.array([2, 3, 0, 1], np.int16)
    position = np.array([10.0, 11.0, 14.0, 15.0], np.float32)
    state = spawn.idle_state(*map(jnp.asarray, (unit_type, position, position, tag)), game)
    return game, jax.tree.map(np.asarray, state)


def test_actions_become_the_commands_of_the_authors_environment():
    game, state = medical()
    assert commands.from_actions(state, np.array([1, 2]), TAGS, game) == [
        Command(STOP, (100,)),
        Command(MOVE, (101,), position=(11.0, 13.0)),
    ]
    assert commands.from_actions(state, np.array([5, 3]), TAGS, game) == [
        Command(MOVE, (100,), position=(8.0, 10.0)),
        Command(MOVE, (101,), position=(11.0, 9.0)),
    ]
    assert commands.from_actions(state, np.array([7, 8]), TAGS, game) == [
        Command(ATTACK, (100,), target_tag=103),  # the enemy Medivac has tag 1
        Command(HEAL, (101,), target_tag=100),
    ]


def test_dead_agents_give_no_command():
    game, state = medical()
    dead = table.with_fields(state, health=np.array([0.0, 150.0, 45.0, 150.0], np.float32))
    assert commands.from_actions(dead, np.array([0, 1]), TAGS, game) == [Command(STOP, (101,))]


def test_orders_of_a_script_become_commands():
    game, state = medical()
    ordered = table.with_fields(
        state,
        target=np.array([2, -1, -1, -1], np.int16),
        moving=np.array([False, True, True, False]),
        attack_moving=np.array([False, False, True, False]),
        goal_x=np.array([0.0, 1.0, 2.0, 3.0], np.float32),
    )
    found = commands.from_orders(state, ordered, range(4), TAGS, game)
    assert found == [
        Command(ATTACK, (100,), target_tag=102),
        Command(MOVE, (101,), position=(1.0, 11.0)),
        Command(ATTACK, (102,), position=(2.0, 14.0)),
        Command(STOP, (103,)),
    ]


def test_an_attack_move_is_ordered_once():
    game, state = medical()
    moving = table.with_fields(state, attack_moving=np.ones(4, bool), moving=np.ones(4, bool))
    assert len(commands.from_orders(state, moving, range(2), TAGS, game)) == 2
    assert commands.from_orders(moving, moving, range(2), TAGS, game) == []


def test_units_with_the_same_order_share_a_command():
    found = commands.joined(
        [Command(ATTACK, (1,), position=(2.0, 3.0)), Command(STOP, (4,)), Command(ATTACK, (5,), None, (2.0, 3.0))]
    )
    assert found == [Command(ATTACK, (1, 5), position=(2.0, 3.0)), Command(STOP, (4,))]
