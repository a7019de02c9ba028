"""Documents: names, links, options and commands in them exist; their examples run."""

import ast
import dataclasses
import importlib
import json
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from refil import plugins, settings
from refil.cli._early_args import EarlyArgs
from refil.training import config

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
PAGES += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "results").glob("*/README.md"))]
AS_RUN = re.compile(r"```[^\n]*\n# as run at .*?```", re.DOTALL)  # commands of older versions
OPTION = r"(?<![\w-])--[a-z][\w.-]*"
FOREIGN = {"--pythonpath", "--no-deps", "--max-kernels", "--max-megabytes", "--top"}  # options of other programs
FOREIGN |= {"--commit", "--cpu-time", "--part", "--rounds", "--env.reward-scale"}  # of benchmarks and of JaxMARL's environments
FOREIGN |= {"--rm", "--gpus", "--time", "--no-cache-dir", "--create-home"}  # of Docker and of commands in its images
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SITE = ROOT / "mkdocs.yml"
WIDTH = 132  # longest line of prose
MARKDOWN = [*ROOT.glob("*.md"), *(page for folder in ("docs", "results") for page in (ROOT / folder).rglob("*.md"))]


def text_of(page: Path) -> str:
    return AS_RUN.sub("", page.read_text())


def resolve(name: str) -> object:
    """Return the module, class or function of a dotted name."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_name_in_the_documents_exists(page):
    for name in re.findall(r"`(refil\.[\w.]+)`", text_of(page)):
        resolve(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_in_the_documents_exists(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link
    for path in re.findall(r"`((?:refil|tests|docs|benchmarks)/[\w/]+\.py)`", text_of(page)):
        assert (ROOT / path).exists(), path


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_anchor_in_the_documents_exists(page):
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert anchor in anchors(page.parent / link if link else page), f"{link}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_in_the_documents_can_be_read(page):
    for language, code in BLOCK.findall(page.read_text()):
        if language == "json":
            json.loads(code)
        if language == "python":
            tree = ast.parse(code)
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        resolve(f"{node.module}.{alias.name}")
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("refil."):
                    resolve(ast.unparse(node.func))


@pytest.mark.parametrize("page", sorted(MARKDOWN), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_wrapped(page):
    """Tables, headings, and code, which is fenced or indented, may have longer lines."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines()
    assert not [line for line in prose if len(line) > WIDTH and not line.startswith(("|", "#", "    "))]


def test_every_page_is_in_the_navigation_of_the_site():
    named = set(re.findall(r"^ +- [^#\n]+: (\S+\.md)$", SITE.read_text(), re.MULTILINE))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} | {"tutorial.md"}  # the page of the notebook
    outside = {name for name in named if (ROOT / name).exists()}
    assert named == pages | outside
    assert {str(page.relative_to(ROOT)) for page in PAGES if "results" in page.parts} <= outside


def test_pages_that_are_still_missing_are_commented_out_in_the_navigation():
    waiting = set(re.findall(r"^ +# - [^#\n]+: (\S+\.md)$", SITE.read_text(), re.MULTILINE))
    assert not [name for name in waiting if (ROOT / "docs" / name).exists()], "uncomment these lines of mkdocs.yml"


def test_every_member_in_the_api_reference_exists():
    text = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^::: (refil\.[\w.]+)((?:\n    .*)*)", text, re.MULTILINE)
    assert len(names) > 20
    for name, options in names:
        found = resolve(name)
        listed = re.search(r"members: \[([^\]]*)\]", options)
        for member in filter(None, re.split(r", *", listed[1] if listed else "")):
            assert hasattr(found, member) or member in getattr(found, "__annotations__", {}), f"{name}.{member}"


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """The options of every command."""
    found = {}
    for command in plugins.names("refil.cli"):
        module = plugins.load("refil.cli", command)
        found[command] = {"--help"}
        if command in ("train", "bench"):  # which have the options of the environment and the method
            found[command] |= {"--" + field.name.replace("_", "-") for field in dataclasses.fields(EarlyArgs)}
            for method in plugins.names("refil.methods"):
                found[command] |= set(settings.flags(config.default("group_matching", method)).values())
            for env in ("3-8sz", "sc2:3-8sz"):
                found[command] |= set(settings.flags(config.default(env, "refil")).values())
        for name, kind in vars(module).items():
            if name.endswith("Args") and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__:
                found[command] |= {"--" + field.name.replace("_", "-") for field in dataclasses.fields(kind)}
        found[command] |= {re.sub(r"(\.|^--)(?=[^.]+$)", r"\1no-", option) for option in found[command]}  # switched off
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_in_the_documents_exists(page, known):
    everywhere = set.union(*known.values()) | FOREIGN
    for option in re.findall(OPTION, text_of(page)):
        assert option.rstrip(".") in everywhere, option


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_the_documents_has_its_options(page, known):
    for command, rest in re.findall(r"(?:^ {4}|`)refil ([a-z][\w-]*)([^`#\n]*)", text_of(page), re.MULTILINE):
        assert set(re.findall(OPTION, rest)) <= known[command.replace("-", "_")], f"refil {command}{rest}"


@pytest.mark.slow
def test_the_python_example_of_the_readme_runs(monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    quick = "steps=60, batch=4, buffer=16, pack=[], eval_episodes=4, method_options={'size': 8, 'heads': 2}"
    code = code.replace("seeds=5, steps=20_000", f"seeds=1, {quick}").replace("episodes=200", "episodes=4")
    assert quick in code
    exec(code.replace("128", "2"), {})


QUICK = {  # sizes in the guides' examples, and smaller ones
    "steps=10_000, eval_every=1_000": "steps=60, eval_every=60",
    "steps=2_000, eval_every=1_000": "steps=60, eval_every=60",
    "steps=2_000,\n    eval_every=1_000": "steps=60, eval_every=60",
    "episodes=200": "episodes=4",
    "episodes=100": "episodes=4",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "train", "evaluate"])
def test_the_python_examples_of_the_guides_run(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    for long, short in QUICK.items():
        text = text.replace(long, short + ", batch=4, buffer=16, pack=[], eval_episodes=4" * ("steps" in short))
    (code,) = [code for language, code in BLOCK.findall(text) if language == "python"]
    assert "steps=60" in code
    exec(code, {})


@pytest.mark.slow
def test_the_tutorial_runs():
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is stored without outputs"
    started = time.monotonic()
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(ROOT)}}).execute()
    assert time.monotonic() - started < 120, "the notebook promises less than two minutes"
    shown = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    assert "win_rate" in shown
    assert "iframe" in shown
