"""Episodes as JSON for a page: what stays the same is stored once, and numbers are rounded to what can be seen."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from refil.scene import SHAPES, Area, Circle, Number, Scene
from refil.viewer.details import Details

RESOLUTION = 1000  # steps into which the width of a plane is divided, at least


@dataclass(frozen=True)
class Clip:
    """An episode: its title, its scenes in order, and how many of them are shown per second at normal speed.

    `rewards` has a number for each scene but the first. `smooth` moves bodies between scenes. `details` are those of a team
    that acts between each two scenes.
    """

    title: str
    scenes: list[Scene]
    per_second: Number
    rewards: tuple[float, ...] = ()
    smooth: bool = False
    details: Details | None = None


@dataclass(frozen=True)
class _Table:
    """Rows that occur in many frames, each stored once and referred to by its number."""

    rows: list[Any] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    def number(self, row: Any) -> int:
        """Return the number of a row, which is added if it is new."""
        key = json.dumps(row)
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append(row)
        return self.numbers[key]


def page_json(clips: list[Clip], compared: list[Clip] | None, labels: tuple[str, ...] = ()) -> str:
    """Return the content of a page: episodes with one clip each, or with two from the same start."""
    shown = [[clip] for clip in clips] if compared is None else [list(pair) for pair in zip(clips, compared, strict=True)]
    episodes = [[encode_clip(clip) for clip in each] for each in shown]
    content = {"shapes": SHAPES, "labels": list(labels), "episodes": episodes}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # <!--<script> in a title would hide the end of the script tag
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def encode_clip(clip: Clip) -> dict[str, Any]:
    """Return what a page reads of a clip."""
    first, bodies, areas = clip.scenes[0], _Table(), _Table()
    digits = _digits(first.width)
    frames = [_frame(scene, bodies, areas, digits) for scene in clip.scenes]
    rate, width, height = _rounded(3, clip.per_second, first.width, first.height)
    return {
        "title": clip.title,
        "rate": rate,
        "width": width,
        "height": height,
        "smooth": clip.smooth,
        "legend": [[entry.text, entry.color, entry.shape] for entry in first.legend],
        "levels": [[level.name, level.color] for level in first.levels],
        "bodies": bodies.rows,
        "areas": areas.rows,
        "frames": frames,
        "rewards": _rounded(4, *clip.rewards),
        "details": None if clip.details is None else clip.details.encode(),
    }


def _frame(scene: Scene, bodies: _Table, areas: _Table, digits: int) -> list[Any]:
    """Return the note, the bodies, the lines, the areas and the levels of a scene."""
    circles = [_circle(circle, bodies, digits) for circle in scene.circles]
    lines = [[*_rounded(digits, e.x, e.y, e.to_x, e.to_y), *_rounded(3, e.width), e.color] for e in scene.lines]
    numbers = [areas.number(_area(area, digits)) for area in scene.areas]
    return [scene.note, circles, lines, numbers, _rounded(3, *(level.value for level in scene.levels))]


def _circle(circle: Circle, bodies: _Table, digits: int) -> list[Any]:
    """Return the number of the body, and what changes: position, angle, bars, values and, where it has one, its order."""
    ranges = [[name, *_rounded(digits, radius)] for name, radius in circle.ranges]
    names = [name for name, _ in circle.values]
    radius = _rounded(max(digits, 3), circle.radius)[0]
    look = [circle.name, radius, circle.color, circle.label, circle.shape, circle.entity, circle.kind]
    number = bodies.number([*look, ranges, [color for _, color in circle.bars], names, circle.verb])
    changing = [_rounded(3, fraction)[0] for fraction, _ in circle.bars]
    return [
        number,
        *_rounded(digits, circle.x, circle.y),
        *_rounded(2, circle.facing),
        changing,
        [_value(v) for _, v in circle.values],
        *([circle.order] if circle.order else ()),
    ]


def _area(area: Area, digits: int) -> list[Any]:
    corners = [_rounded(digits, *corner) for corner in area.corners]
    return [corners, area.color, area.label, _rounded(digits, *area.label_at)]


def _value(value: Number | str) -> Number | str | None:
    return value if isinstance(value, str) else _rounded(3, value)[0]


def _digits(width: Number) -> int:
    """Return how many decimals coordinates need on a plane of this width."""
    return max(0, math.ceil(math.log10(RESOLUTION / width))) if 0 < width < math.inf else 3


def _rounded(digits: int, *values: Number | None) -> list[Number | None]:
    """Round numbers; those that are not finite, which JSON lacks, become None and are not drawn."""
    return [None if value is None or not math.isfinite(value) else round(float(value), digits) for value in values]
