"""What the documents say is there."""

import dataclasses
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from refil import experiment, runs, train
from tests.training import small

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "results").glob("*/README.md"))]


def resolve(name: str) -> object:
    """The module, class or function of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_name_in_the_documents_exists(page):
    for name in re.findall(r"`(refil\.[\w.]+)`", page.read_text()):
        resolve(name)


def test_the_walk_goes_down_the_layers_and_misses_no_part():
    text = (ROOT / "docs" / "walk.md").read_text()
    for module in ("collect", "replay", "learn", "fold", "imagination", "td", "act", "runs", "evaluate", "loop", "train"):
        assert f"`refil.{module}." in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_file_that_the_documents_link_to_exists(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_option_in_the_documents_exists(page):
    from refil import experiment, plugins
    from refil.commands import battle, bench, evaluate, habits, plot, sweep, watch
    from refil.commands import list as listing

    known = {"--help", "--out", "--config", "--resume", "--method"}
    for method in plugins.names("refil.methods"):
        known |= set(option_names(experiment.default("group_matching", method).options))
    known |= set(option_names(experiment.default("3-8sz", "refil").options))
    for command in (*(module.Options for module in (battle, evaluate, habits, plot, sweep, watch, listing)), bench.Measure):
        known |= {"--" + field.name.replace("_", "-") for field in dataclasses.fields(command)}
    known |= {re.sub(r"(\.|^--)(?=[^.]+$)", r"\1no-", option) for option in known}  # switched off
    for option in re.findall(r"(?<![\w-])--[a-z][\w.-]*", page.read_text()):
        assert option.rstrip(".") in known, option


def option_names(settings, path=()):
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from option_names(value, (*path, field.name))
        yield "--" + ".".join((*path, field.name)).replace("_", "-")


def test_the_example_of_a_method_is_the_one_that_ships():
    _, shown = (ROOT / "docs" / "extending.md").read_text().split("def loss(model, target, episodes, key, discount):\n")
    shipped = (ROOT / "refil" / "methods" / "iql_attention.py").read_text()
    lines = [line.strip() for line in shown.split("\n\n")[0].splitlines()]
    assert len(lines) > 8
    assert all(line in shipped for line in lines)


def test_the_smallest_method_trains(tmp_path):
    asked = experiment.default("group_matching", str(ROOT / "docs" / "vdn_without_discount.py"))
    assert experiment.label(asked.method).endswith("vdn_without_discount.py")
    asked = replace(asked, options=replace(small().options, method=replace(asked.options.method, size=8, heads=2)))
    assert train.run(asked, runs.create(tmp_path / "run", asked))
