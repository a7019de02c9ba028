"""Options as data."""

from dataclasses import dataclass, field

import pytest

from refil import settings
from refil.errors import RefilError
from refil.settings import NonNegativeFloat, PositiveInt, UnitFloat


@dataclass(frozen=True)
class Inner:
    """Options inside options."""

    groups: PositiveInt = 2
    share: UnitFloat = 0.5


@dataclass(frozen=True)
class Outer:
    """Options."""

    steps: PositiveInt = 10  # how many
    lr: NonNegativeFloat = 0.1
    limit: NonNegativeFloat | None = None
    name: str = "a"
    parts: tuple[UnitFloat, ...] = (0.25, 0.5)
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Defaults:
    """What lies under them."""

    steps: int = 99
    unknown: int = 1


def parse(*arguments: str) -> Outer:
    return settings.from_command_line(Outer, arguments, "test", "A test.", Outer())


def test_options_are_read_over_their_defaults():
    assert parse("--inner.groups", "3", "--lr", "0.5") == Outer(lr=0.5, inner=Inner(groups=3))
    assert parse("--parts", "1", "0.1") == Outer(parts=(1.0, 0.1))
    assert parse("--parts") == Outer(parts=())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps", "0"), "--steps must be from 1 to 1,000,000,000, not 0"),
        (("--inner.share", "1.5"), "--inner.share must be from 0 to 1, not 1.5"),
        (("--limit", "-1"), "--limit must be 0 or more, not -1"),
        (("--parts", "0.5", "7"), "--parts must be from 0 to 1, not 7"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name_and_value(arguments, words):
    with pytest.raises(RefilError, match=words):
        parse(*arguments)


def test_json_is_read_back_with_its_types():
    assert settings.from_json(Outer(), {"lr": 1, "inner": {"groups": 5}}) == Outer(lr=1.0, inner=Inner(groups=5))
    assert settings.from_json(Outer(), {"parts": [1, 0.1]}) == Outer(parts=(1.0, 0.1))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"stepz": 1}, "no 'stepz'; it has inner, limit, lr, name, parts, steps"),
        ({"inner": {"group": 1}}, "--inner has no 'group'"),
        ({"steps": "many"}, '--steps should be of type int, not "many"'),
        ({"steps": -4}, "--steps must be from 1 to 1,000,000,000, not -4"),
        ({"inner": 3}, "--inner should be an object"),
        ({"parts": ["half"]}, '--parts should be of type float, not "half"'),
        ({"parts": [None]}, "--parts should be of type float, not null"),
        ({"lr": None}, "--lr should be of type float, not null"),
        ({"parts": 0.5}, "--parts should be of type list, not 0.5"),
    ],
)
def test_json_that_does_not_fit_is_refused_by_name(values, words):
    with pytest.raises(RefilError, match=words):
        settings.from_json(Outer(), values)


def test_defaults_lie_under_options_of_the_same_name():
    assert settings.apply_defaults(Outer(), Defaults()) == Outer(steps=99)


def test_differences_name_options_as_they_are_typed():
    assert settings.differences(Outer(), Outer(lr=0.2, inner=Inner(groups=4))) == {"--lr": (0.1, 0.2), "--inner.groups": (2, 4)}
