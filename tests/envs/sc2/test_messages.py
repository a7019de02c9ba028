"""Records from and to messages of the protocol."""

import numpy as np
import pytest

from refil.envs.sc2 import install, messages
from refil.envs.sc2.records import ALLY, ATTACK, ENEMY, MOVE, STOP, Command, Placement

protocol = install.protocol()


def test_units_of_both_teams_keep_the_game_s_order_and_others_are_left_out():
    observation = protocol.api.Observation(game_loop=24)
    for tag, owner in ((7, ENEMY), (8, 16), (9, ALLY)):  # 16 owns neutral units
        unit = observation.raw_data.units.add(tag=tag, owner=owner, unit_type=48, health=45 - tag, health_max=45)
        unit.pos.x, unit.pos.y = tag + 0.25, 2.0
        unit.weapon_cooldown, unit.is_flying = 3.5, tag == 9
    units = messages.units(observation)
    assert units.tag.tolist() == [7, 9]
    assert units.owner.tolist() == [ENEMY, ALLY]
    assert units.x.tolist() == [7.25, 9.25]
    assert units.health.tolist() == [38.0, 36.0]
    assert units.cooldown.tolist() == [3.5, 3.5]
    assert units.flying.tolist() == [False, True]
    assert units.tick == 24
    assert len(units) == 2


def test_no_units_are_an_empty_table():
    assert len(messages.units(protocol.api.Observation())) == 0


def info(bits: int, pathing: bytes):
    answer = protocol.api.ResponseGameInfo()
    size = protocol.common.Size2DI(x=8, y=2)
    answer.start_raw.pathing_grid.CopyFrom(protocol.common.ImageData(bits_per_pixel=bits, size=size, data=pathing))
    answer.start_raw.terrain_height.CopyFrom(protocol.common.ImageData(bits_per_pixel=8, size=size, data=bytes(range(16))))
    answer.start_raw.playable_area.p1.x, answer.start_raw.playable_area.p1.y = 8, 2
    return messages.map_info(answer, protocol.api.ResponsePing(game_version="4.10", base_build=75689))


def test_the_pathing_grid_has_one_bit_for_each_cell_from_the_southwest():
    found = info(1, bytes([0b10000000, 0b00000011]))
    assert np.argwhere(found.pathing).tolist() == [[0, 0], [6, 1], [7, 1]]  # [x, y]
    assert found.playable_area == (0, 0, 8, 2)
    assert (found.version, found.build) == ("4.10", 75689)
    assert found.terrain_height[1, 0] == pytest.approx(1 / 255)
    assert found.terrain_height[0, 1] == pytest.approx(8 / 255)


def test_older_versions_mark_walls_with_bytes_from_the_northwest():
    found = info(8, bytes([255] * 8 + [0] * 8))
    assert found.pathing[:, 0].all()
    assert not found.pathing[:, 1].any()


def test_commands_aim_at_a_unit_a_position_or_nothing():
    orders = [
        messages.unit_command(command).action_raw.unit_command
        for command in (Command(ATTACK, (5,), target_tag=6), Command(MOVE, (5,), position=(1.5, 2.5)), Command(STOP, (5,)))
    ]
    assert [order.ability_id for order in orders] == [23, 16, 4]
    assert [list(order.unit_tags) for order in orders] == [[5]] * 3
    assert [order.WhichOneof("target") for order in orders] == ["target_unit_tag", "target_world_space_pos", None]
    assert (orders[1].target_world_space_pos.x, orders[1].target_world_space_pos.y) == (1.5, 2.5)


def test_units_of_a_type_at_one_point_are_created_together():
    placements = [Placement(48, ALLY, 1.0, 2.0), Placement(48, ENEMY, 1.0, 2.0), Placement(48, ALLY, 1.0, 2.0)]
    created = [command.create_unit for command in messages.create_units(placements)]
    assert [(each.owner, each.quantity) for each in created] == [(ALLY, 2), (ENEMY, 1)]


def test_debug_commands_name_units_and_control():
    assert list(messages.kill_units([3, 4]).kill_unit.tag) == [3, 4]
    assert messages.control_enemy().game_state == 2
