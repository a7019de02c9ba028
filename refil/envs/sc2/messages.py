"""Convert between the records and the messages of the game's protocol."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32

from refil.envs.sc2 import install
from refil.envs.sc2.records import ALLY, ENEMY, Command, MapInfo, Placement, Units

# Fields of `Units`, with their names in the protocol and their types.
FIELDS = {
    "tag": ("tag", np.uint64),
    "type_id": ("unit_type", np.int32),
    "owner": ("owner", np.int32),
    "health": ("health", np.float32),
    "shield": ("shield", np.float32),
    "energy": ("energy", np.float32),
    "cooldown": ("weapon_cooldown", np.float32),
    "radius": ("radius", np.float32),
    "health_max": ("health_max", np.float32),
    "shield_max": ("shield_max", np.float32),
    "flying": ("is_flying", np.bool_),
}
WALL_8_BITS = 255  # in older versions, which store the pathing grid as bytes from the north


def units(observation: Any) -> Units:
    """Return the units of both teams of an observation."""
    raw = [unit for unit in observation.raw_data.units if unit.owner in (ALLY, ENEMY)]
    columns = {name: np.array([getattr(unit, field) for unit in raw], dtype) for name, (field, dtype) in FIELDS.items()}
    x, y = (np.array([getattr(unit.pos, axis) for unit in raw], np.float32) for axis in "xy")
    return Units(x=x, y=y, tick=observation.game_loop, **columns)


def map_info(info: Any, ping: Any) -> MapInfo:
    """Return the map of a game, and the version that a ping names."""
    raw, area = info.start_raw, info.start_raw.playable_area
    bits = raw.pathing_grid.bits_per_pixel
    pathing = _image(raw.pathing_grid)
    return MapInfo(
        version=ping.game_version,
        build=ping.base_build,
        playable_area=(area.p0.x, area.p0.y, area.p1.x, area.p1.y),
        pathing=pathing > 0 if bits == 1 else pathing[:, ::-1] < WALL_8_BITS,
        terrain_height=(_image(raw.terrain_height) / 255).astype(np.float32),
    )


def _image(image: Any) -> Float32[np.ndarray, "x y"]:
    data = np.frombuffer(image.data, np.uint8)
    data = np.unpackbits(data) if image.bits_per_pixel == 1 else data
    width, height = image.size.x, image.size.y
    return data[: width * height].reshape(height, width).T.astype(np.float32)


def unit_command(command: Command) -> Any:
    """Return the action that gives a command."""
    protocol = install.protocol()
    action = protocol.raw.ActionRawUnitCommand(ability_id=command.ability_id, unit_tags=command.tags, queue_command=False)
    if command.target_tag is not None:
        action.target_unit_tag = command.target_tag
    elif command.position is not None:
        action.target_world_space_pos.x, action.target_world_space_pos.y = command.position
    return protocol.api.Action(action_raw=protocol.raw.ActionRaw(unit_command=action))


def result_name(result: int) -> str:
    """Return the protocol's name for the result of a command."""
    names = install.protocol().error.ActionResult
    return names.Name(result) if result in names.values() else f"result {result}"


def create_units(placements: Sequence[Placement]) -> list[Any]:
    """Return the debug commands that spawn units, one for each type at each point."""
    debug, point = install.protocol().debug, install.protocol().common.Point2D
    return [
        debug.DebugCommand(
            create_unit=debug.DebugCreateUnit(
                unit_type=each.type_id, owner=each.owner, pos=point(x=each.x, y=each.y), quantity=quantity
            )
        )
        for each, quantity in Counter(placements).items()
    ]


def kill_units(tags: Sequence[int]) -> Any:
    """Return the debug command that kills units."""
    debug = install.protocol().debug
    return debug.DebugCommand(kill_unit=debug.DebugKillUnit(tag=tags))


def control_enemy() -> Any:
    """Return the debug command that lets the player command the enemy's units."""
    debug = install.protocol().debug
    return debug.DebugCommand(game_state=debug.control_enemy)
