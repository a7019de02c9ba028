"""What the documents say is there."""

import dataclasses
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from refil import plugins
from refil.storage import run_dir
from refil.training import config, trainer
from tests.tiny_runs import small

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


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Every command's options."""
    found = {}
    for command in plugins.names("refil.cli"):
        module = plugins.load("refil.cli", command)
        found[command] = {"--help"}
        if command in ("train", "bench"):  # which take what the environment and the method have
            found[command] |= {"--out", "--config", "--resume", "--method"}
            for method in plugins.names("refil.methods"):
                found[command] |= set(option_names(config.default("group_matching", method).options))
            found[command] |= set(option_names(config.default("3-8sz", "refil").options))
        options = module.Measure if command == "bench" else module.Options
        found[command] |= {"--" + field.name.replace("_", "-") for field in dataclasses.fields(options)}
        found[command] |= {re.sub(r"(\.|^--)(?=[^.]+$)", r"\1no-", option) for option in found[command]}  # switched off
    return found


OPTION = r"(?<![\w-])--[a-z][\w.-]*"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_option_in_the_documents_exists(page, known):
    everywhere = set.union(*known.values())
    for option in re.findall(OPTION, page.read_text()):
        assert option.rstrip(".") in everywhere, option


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_in_the_documents_has_its_options(page, known):
    for command, rest in re.findall(r"(?:^ {4}|`)refil (\w+)([^`#\n]*)", page.read_text(), re.MULTILINE):
        assert set(re.findall(OPTION, rest)) <= known[command], f"refil {command}{rest}"


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
    asked = config.default("group_matching", str(ROOT / "docs" / "vdn_without_discount.py"))
    assert config.label(asked.method).endswith("vdn_without_discount.py")
    asked = replace(asked, options=replace(small().options, method=replace(asked.options.method, size=8, heads=2)))
    assert trainer.run(asked, run_dir.create(tmp_path / "run", asked))
