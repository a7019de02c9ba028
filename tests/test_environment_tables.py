"""docs/environments.md: its tables of features, actions, unit types and action words are those of the code."""

import re
from pathlib import Path

import pytest

import refil
from refil import plugins
from refil.envs.starcraft import orders
from refil.envs.starcraft.analysis import placement
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.env import UNITS
from refil.envs.starcraft.sim import rules

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "environments.md").read_text()
EXAMPLE = DOCS / "placement.json"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading."""
    table = PAGE.partition(f"### {heading}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def documented(heading: str) -> dict[int, str]:
    """Return the names in a table by their number; of a row with an ellipsis, the first and the last."""
    found = {}
    for numbers, names, _ in rows(heading):
        first, *last = map(int, re.findall(r"\d+", numbers))
        listed = re.findall(r"`([^`]+)`", names)
        places = [first, last[0]] if "…" in names else range(first, first + len(listed))
        assert (last or [first])[0] == places[-1], numbers
        found |= dict(zip(places, listed, strict=True))
    return found


@pytest.mark.parametrize("name", ["group_matching", "3-8sz"])
@pytest.mark.parametrize("kind", ["feature", "action"])
def test_tables_have_the_names_of_the_code(name, kind):
    names = getattr(refil.make(name), f"{kind}_names")
    table = documented(f"{kind.capitalize()}s of {name}")
    assert max(table) == len(names) - 1
    assert min(table) == 0
    assert table == {number: names[number] for number in table}
    starts = [int(re.findall(r"\d+", row[0])[0]) for row in rows(f"{kind.capitalize()}s of {name}")]
    ends = [int(re.findall(r"\d+", row[0])[-1]) for row in rows(f"{kind.capitalize()}s of {name}")]
    assert starts == [0, *(end + 1 for end in ends[:-1])]


def test_environments_without_names_number_their_features(tmp_path):
    path = tmp_path / "mine.py"
    text = (Path(refil.__file__).parent / "examples" / "beacon.py").read_text()
    path.write_text(text.replace("feature_names", "some_names").replace("action_names", "other_names"))
    env = refil.make(str(path))
    assert env.feature_names == tuple(f"feature {number}" for number in range(6))
    assert env.action_names == ("action 0", "action 1", "action 2")


def test_the_example_of_the_page_is_true():
    env = refil.make("3-8sz")
    assert (env.feature_names[28], env.action_names[6]) == ("is zealot", "target 0")
    assert (rules.SIGHT_RANGE, rules.TARGET_RANGE, rules.MOVE_DISTANCE) == (9, 6, 2)


def test_unit_types_are_those_of_the_code():
    units = {name: plugins.load(UNITS, name).UNIT for name in plugins.names(UNITS)}
    expected = [
        [f"`{name}`", unit.letter, *(f"{value:g}" for value in (unit.max_health, unit.max_shield, unit.collision_radius))]
        for name, unit in units.items()
    ]
    assert rows("Unit types") == expected


def test_action_words_are_understood():
    words = [word for row in rows("Action words") for word in re.findall(r"`([^`]+)`", row[0])]
    assert words == ["stop", *orders.MOVES, "target N"]


def test_the_example_placement_can_be_played():
    placed = placement.read(EXAMPLE, Config())
    assert placed.slots == [0, 1, 2, 3]
    assert placed.actions.tolist() == [[6, 6], [6, orders.WEST], [orders.STOP, 7]]
    assert placed.state.health.tolist() == [80, 40, 100, 100]
