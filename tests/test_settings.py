"""Options as frozen dataclasses."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import tyro

from refil import settings
from refil.errors import RefilError
from refil.settings import Flat, FromEnv, Inline, NonNegativeFloat, PositiveInt, UnitFloat
from refil.types import EnvDefaults


@dataclass(frozen=True)
class Inner:
    """Options inside options."""

    groups: PositiveInt = 2
    share: UnitFloat = 0.5


@dataclass(frozen=True)
class Choice:
    """A name and options that count as the group's own."""

    name: str = "x"
    options: Inline[Inner] = field(default_factory=Inner)


@dataclass(frozen=True)
class Outer:
    """Options."""

    steps: Annotated[PositiveInt, FromEnv] = 10  # Number of steps
    lr: NonNegativeFloat = 0.1
    buffer: int = 3
    limit: NonNegativeFloat | None = None
    name: str = "a"
    parts: tuple[UnitFloat, ...] = (0.25, 0.5)
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Tree:
    """Groups of options."""

    train: Flat[Outer] = field(default_factory=Outer)
    env: Choice = field(default_factory=Choice)


def parse(*arguments: str) -> Outer:
    return settings.from_command_line(Outer, arguments, "test", "A test.", Outer())


def test_given_options_replace_defaults():
    assert parse("--inner.groups", "3", "--lr", "0.5") == Outer(lr=0.5, inner=Inner(groups=3))
    assert parse("--parts", "1", "0.1") == Outer(parts=(1.0, 0.1))
    assert parse("--parts") == Outer(parts=())


def test_flat_groups_have_no_prefix_and_inline_groups_no_name():
    parsed = settings.from_command_line(Tree, ["--steps", "5", "--inner.groups", "4", "--env.groups", "7"], "test", "", Tree())
    assert parsed == Tree(Outer(steps=5, inner=Inner(groups=4)), Choice(options=Inner(groups=7)))
    flags = settings.flags(Tree())
    assert flags["train.steps"] == "--steps"
    assert flags["train.inner.groups"] == "--inner.groups"
    assert flags["env.groups"] == "--env.groups"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "0"), "--steps must be from 1 to 1,000,000,000, not 0"),
        (("--inner.share", "1.5"), "--inner.share must be from 0 to 1, not 1.5"),
        (("--limit", "-1"), "--limit must be 0 or more, not -1"),
        (("--limit", "inf"), "--limit must be a finite number, not inf"),
        (("--limit", "nan"), "--limit must be a finite number, not nan"),
        (("--parts", "0.5", "7"), "--parts must be from 0 to 1, not 7"),
    ],
)
def test_the_command_line_names_numbers_out_of_range_by_their_flag(arguments, message):
    with pytest.raises(RefilError, match=message):
        parse(*arguments)


def test_the_library_names_numbers_out_of_range_by_their_path():
    with pytest.raises(RefilError, match=r"^train.inner.share must be from 0 to 1, not 2"):
        settings.check(Tree(Outer(inner=Inner(share=2.0))))
    with pytest.raises(RefilError, match=r"^env.groups must be from 1 to 1,000,000,000, not 0"):
        settings.check(Tree(env=Choice(options=Inner(groups=0))))


def test_json_values_get_the_types_of_their_options():
    assert settings.from_json(Outer(), {"lr": 1, "inner": {"groups": 5}}) == Outer(lr=1.0, inner=Inner(groups=5))
    assert settings.from_json(Outer(), {"parts": [1, 0.1]}) == Outer(parts=(1.0, 0.1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stepz": 1}, r"no option 'stepz'; did you mean 'steps'\? Available: buffer, inner, limit, lr, name, parts, steps"),
        ({"inner": {"group": 1}}, "inner has no option 'group'"),
        ({"steps": "many"}, 'steps should be of type int, not "many"'),
        ({"steps": -4}, "steps must be from 1 to 1,000,000,000, not -4"),
        ({"inner": 3}, "inner should be a dictionary, not 3"),
        ({"parts": ["half"]}, 'parts should be of type float, not "half"'),
        ({"parts": [None]}, "parts should be of type float, not null"),
        ({"lr": None}, "lr should be of type float, not null"),
        ({"parts": 0.5}, "parts should be of type list, not 0.5"),
        ({"limit": "soon"}, 'limit should be of type float, not "soon"'),
        ({"lr": 10**400}, "lr should be of type float, not 1000"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_the_option(values, message):
    with pytest.raises(RefilError, match=message):
        settings.from_json(Outer(), values)


def test_environments_choose_the_defaults_of_marked_options_only():
    assert settings.apply_defaults(Outer(), EnvDefaults(steps=99, buffer=7)) == Outer(steps=99)
    assert settings.apply_defaults(Outer(), EnvDefaults()) == Outer()


def test_differences_name_options_by_their_path():
    assert settings.differences(Outer(), Outer(lr=0.2, inner=Inner(groups=4))) == {"lr": (0.1, 0.2), "inner.groups": (2, 4)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "3", "--steps", "4"], "--steps is given twice"),
        (["--steps=3", "--steps", "3"], "--steps is given twice"),
        (["--inner.groups", "3", "--inner.groups", "4"], "--inner.groups is given twice"),
        (["--parts", "0.5", "--steps", "3", "--parts", "0.25"], "--parts is given twice"),
        (["--fast", "--no-fast"], "--fast and --no-fast are both given"),
        (["--inner.deep", "--inner.no-deep"], "--inner.deep and --inner.no-deep are both given"),
    ],
)
def test_an_option_is_given_once(arguments, message):
    @dataclass(frozen=True)
    class Deep(Inner):
        """Options inside options."""

        deep: bool = False

    @dataclass(frozen=True)
    class Fast(Outer):
        """Options."""

        fast: bool = False
        inner: Deep = field(default_factory=Deep)

    with pytest.raises(RefilError, match=f"^{message}$"):
        settings.from_command_line(Fast, arguments, "refil test", None)
    assert settings.from_command_line(Fast, arguments[: 1 + (not arguments[1].startswith("--"))], "refil test", None)


def test_an_option_that_collects_values_may_be_given_again():
    @dataclass(frozen=True)
    class Many:
        """Options."""

        fault: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()

    assert settings.from_command_line(Many, ["--fault", "a", "--fault", "b"], "refil test", None).fault == ("a", "b")
