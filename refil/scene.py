"""Drawings of one timestep: circles with bars, lines and a note, on a plane whose y axis points up."""

from dataclasses import dataclass, field

Number = int | float


@dataclass(frozen=True)
class Circle:
    """A body. `name` identifies it across timesteps; a timestep without it means that it is gone.

    `bars` are fractions from 0 to 1, each with a color; `facing` is an angle in radians.
    """

    name: str
    x: Number
    y: Number
    radius: Number
    color: str
    label: str = ""
    facing: Number | None = None
    bars: tuple[tuple[Number, str], ...] = ()


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
class Scene:
    """One timestep; `note` is shown as text."""

    width: Number
    height: Number
    circles: list[Circle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    note: str = ""
