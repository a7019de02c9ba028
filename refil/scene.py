"""What can be drawn of an instant: circles with bars, lines and words, on a plane with y upwards."""

from dataclasses import dataclass, field

Number = int | float


@dataclass(frozen=True)
class Circle:
    """A body. `name` is who it is from frame to frame; one that is gone is left out.

    `bars` are shares from 0 to 1 with a colour each; `facing` is an angle in radians.
    """

    name: str
    x: Number
    y: Number
    radius: Number
    colour: str
    label: str = ""
    facing: Number | None = None
    bars: tuple[tuple[Number, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """A stroke from one point to another; `width` is in units of the plane."""

    x: Number
    y: Number
    to_x: Number
    to_y: Number
    colour: str
    width: Number = 0.08


@dataclass(frozen=True)
class Scene:
    """An instant; `note` is a word about it."""

    width: Number
    height: Number
    circles: list[Circle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    note: str = ""
