"""Drawings of one timestep: bodies with bars, areas, lines and a note, on a plane whose y axis points up."""

import math
from dataclasses import dataclass, field

Number = int | float
Point = tuple[Number, Number]


def _polygon(corners: int, turn: float = 0.0, inner: float | None = None) -> tuple[Point, ...]:
    """Return a regular polygon of radius 1 with a corner at the angle `turn`, or a star with `inner` as its inner radius."""
    count = corners if inner is None else 2 * corners
    radii = [1.0 if inner is None or number % 2 == 0 else inner for number in range(count)]
    angles = [turn + 2 * math.pi * number / count for number in range(count)]
    corners_at = zip(radii, angles, strict=True)
    return tuple((round(radius * math.cos(angle), 4), round(radius * math.sin(angle), 4)) for radius, angle in corners_at)


_CROSS = ((-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4), (1, 0.4), (0.4, 0.4))
SHAPES: dict[str, tuple[Point, ...]] = {  # corners for a body of radius 1; a circle has none
    "circle": (),
    "triangle": _polygon(3, math.pi / 2),
    "square": _polygon(4, math.pi / 4),
    "diamond": _polygon(4, math.pi / 2),
    "pentagon": _polygon(5, math.pi / 2),
    "hexagon": _polygon(6),
    "octagon": _polygon(8, math.pi / 8),
    "star": _polygon(5, math.pi / 2, 0.6),
    "burr": _polygon(9, math.pi / 2, 0.75),
    "cross": (*_CROSS, *((-x, -y) for x, y in _CROSS)),
}


@dataclass(frozen=True)
class Circle:
    """A body. `name` identifies it across timesteps; a timestep without it means that it is gone.

    `shape` is one of `SHAPES`. `bars` are fractions from 0 to 1, each with a color; `facing` is an angle in radians. `entity`
    is its row in observations, by which a page finds what an agent does and sees. The other fields are shown when it is
    selected: `kind` says what it is, `values` are names with numbers or texts, and `ranges` are circles around it. `verb` says
    what its actions do to those at whom they are aimed ("attack"), and `order` what it does now, if no team's details do.
    """

    name: str
    x: Number
    y: Number
    radius: Number
    color: str
    label: str = ""
    facing: Number | None = None
    bars: tuple[tuple[Number, str], ...] = ()
    shape: str = "circle"
    entity: int | None = None
    kind: str = ""
    values: tuple[tuple[str, Number | str], ...] = ()
    ranges: tuple[tuple[str, Number], ...] = ()
    verb: str = ""
    order: str = ""


@dataclass(frozen=True)
class Line:
    """A line from (x, y) to (to_x, to_y); `width` is in units of the plane."""

    x: Number
    y: Number
    to_x: Number
    to_y: Number
    color: str
    width: Number = 0.08


@dataclass(frozen=True)
class Area:
    """A filled polygon behind all bodies, with a text at `label_at`."""

    corners: tuple[Point, ...]
    color: str
    label: str = ""
    label_at: Point = (0, 0)


@dataclass(frozen=True)
class LegendEntry:
    """The meaning of a color or a shape; an entry without a shape is drawn as a bar."""

    text: str
    color: str
    shape: str | None = "circle"


@dataclass(frozen=True)
class Level:
    """A number from 0 to 1 that the timeline of a page draws over the whole episode."""

    name: str
    value: Number
    color: str


@dataclass(frozen=True)
class Scene:
    """One timestep; `note` is shown as text. The legend of an episode is that of its first timestep."""

    width: Number
    height: Number
    circles: list[Circle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    note: str = ""
    areas: list[Area] = field(default_factory=list)
    legend: tuple[LegendEntry, ...] = ()
    levels: tuple[Level, ...] = ()
