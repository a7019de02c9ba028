"""Situations, and a browser."""

from typing import Any

import pytest

from refil.lab import field
from refil.lab.field import Units
from tests.viewer.test_export import browser  # noqa: F401 (a fixture)

Unit = dict[str, Any]


def line(team: str, types: str, x: float) -> list[Unit]:
    """Return units of these types, one above the other."""
    return [{"team": team, "type": name, "x": x, "y": 12.0 + 2 * number} for number, name in enumerate(types.split())]


@pytest.fixture
def situation() -> list[Unit]:
    """Return two Zealots and a Stalker on each side, near enough for a short battle."""
    return line("ally", "stalker zealot zealot", 13.0) + line("enemy", "stalker zealot zealot", 18.0)


@pytest.fixture
def units(situation) -> Units:
    return field.parse(situation)
