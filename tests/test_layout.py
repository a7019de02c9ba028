"""The shape of the package: layers, sizes, names, and a test for every file."""

import ast
import functools
import itertools
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from refil import hardware
from refil.training import config
from refil.training.replay import loop

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "refil").rglob("*.py"))
PAGES = sorted(path for suffix in ("js", "css", "html") for path in (ROOT / "refil").rglob(f"*.{suffix}"))
CHECKED = sorted(path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

# A module imports only from layers above its own in this list, or, without cycles, from its own package.
LAYERS = [
    ["refil.errors"],
    [
        "refil.settings",
        "refil.types",
        "refil.scene",
        "refil.stats",
        "refil.hardware",
        "refil.shards",
        "refil.numpy_policy",
        "refil.user_files",
    ],
    ["refil.plugins", "refil.rollout", "refil.wrappers", "refil.kernels"],
    ["refil.hosted"],
    ["refil.envs", "refil.nn"],
    ["refil.learning"],
    ["refil.methods"],
    [
        "refil.training.setup",
        "refil.training.flags",
        "refil.training.cache",
        "refil.training.exhaustion",
        "refil.training.devices",
        "refil.training.stored",
        "refil.training.memory",
    ],
    ["refil.training.counters", "refil.training.evaluation", "refil.training.replay", "refil.training.onpolicy"],
    ["refil.training.contracts"],
    ["refil.training.config", "refil.examples"],
    ["refil.storage"],
    ["refil.training.trainer", "refil.training.transfer", "refil.viewer", "refil.plots", "refil.datasets"],
    ["refil.experiments", "refil.environment", "refil.team", "refil.recording"],
    ["refil.sweeps", "refil.teams"],
    ["refil.api", "refil.checks", "refil.adapters"],
    ["refil.lab"],
    ["refil.cli"],
    ["refil.__main__"],
]
# The contract tests of each kind cover these, so that adding one stays a change of one file.
PLUGINS = ("refil/methods", "refil/envs/starcraft/sim/units", "refil/envs/starcraft/scripts", "refil/examples")
TESTED_ELSEWHERE = {  # each of these test files imports the module
    "types": "tests/test_rollout.py",
    "numpy_policy": "tests/cli/test_export.py",
    "envs/starcraft/__init__": "tests/envs/starcraft/test_scenarios.py",
    "envs/starcraft/config": "tests/envs/starcraft/test_env.py",
    "envs/starcraft/tactics": "tests/envs/starcraft/analysis/test_scripted.py",
    "envs/sc2/__init__": "tests/envs/sc2/test_env.py",
    "envs/sc2/config": "tests/envs/sc2/test_battles.py",
    "training/onpolicy/config": "tests/training/onpolicy/test_update.py",
    "recording": "tests/cli/test_record.py",
    "experiments/__init__": "tests/experiments/test_published.py",
    "methods/__init__": "tests/experiments/test_figure_4.py",
    "sweeps/executor": "tests/sweeps/test_scheduler.py",
    "sweeps/table": "tests/sweeps/test_state.py",
    "teams/__init__": "tests/teams/test_card.py",
}
TESTED_THROUGH = {  # these modules are reached by a name or an option, which is in the test file
    "__init__": ("tests/test_api.py", "refil.train("),
    "__main__": ("tests/test_main.py", '"-m", "refil"'),
    "envs/jaxmarl/__init__": ("tests/adapters/test_jaxmarl.py", "environments of JaxMARL are"),
    "envs/jaxmarl/smax": ("tests/adapters/test_jaxmarl.py", '"smax_'),
    "envs/jaxmarl/spread": ("tests/adapters/test_jaxmarl.py", '"mpe_simple_spread"'),
    "training/onpolicy/timing": ("tests/cli/test_bench.py", '"--parts"'),
    "training/replay/timing": ("tests/cli/test_bench.py", '"--parts"'),
    "experiments/figure_3b": ("tests/cli/test_sweep.py", '"figure_3b"'),
    "experiments/figure_3b_released": ("tests/cli/test_sweep.py", '"figure_3b_released"'),
    "cli/_executors": ("tests/cli/test_sweep.py", '"--slots"'),
    "cli/_sweep_progress": ("tests/cli/test_sweep.py", '"sweep"'),
}
LONG_TESTS = {  # tests and benchmarks of more than 250 lines: how many at most, and why
    "benchmarks/attack_commands.py": (370, "mostly tables of arguments"),
    "benchmarks/attack_extensions.py": (320, "mostly sources of broken extensions"),
    "benchmarks/attack_files.py": (500, "a list of damages, each a few lines"),
    "benchmarks/reproduction.py": (320, "a list of claims, each with its computation"),
    "tests/cli/test_train.py": (380, "its tests share a trained run"),
    "tests/envs/sc2/test_battles.py": (280, "its tests share games"),
    "tests/envs/sc2/test_client.py": (340, "its tests share a game"),
    "tests/envs/starcraft/sim/test_tick.py": (310, "cases of one function, worked out by hand"),
    "tests/envs/starcraft/test_env.py": (320, "its tests share compiled battles"),
    "tests/storage/test_run_dir.py": (480, "cases of one class"),
    "tests/test_layout.py": (360, "all rules about the shape of the package"),
    "tests/training/test_trainer.py": (280, "its tests share a trained run"),
    "tests/viewer/test_export.py": (400, "its tests share a browser"),
}
MANY_ARGUMENTS = {  # more than six; kernels, whose arguments are arrays, need no entry
    "refil.api.train": "the public API, by name",
    "refil.recording.record": "what a dataset depends on, by name",
    "refil.training.trainer.train": "the public API without a command line, by name",
    "refil.learning.losses.factorized_loss": "all that REFIL's loss is computed from",
    "refil.training.replay.update.run_updates": "called by the training loop only",
}
NEED_EXTRAS = {"refil.adapters.jaxmarl", "refil.envs.jaxmarl.smax", "refil.envs.jaxmarl.spread"}  # which tests do without
LONG_FILES: dict[str, str] = {}  # files of more than 250 lines, with the reason


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer(name: str) -> int:
    found = [rank for rank, modules in enumerate(LAYERS) for module in modules if f"{name}.".startswith(f"{module}.")]
    assert found, f"{name} is in no layer"
    return found[0]


def test_imports_are_absolute():
    """Otherwise `imports` below would miss them."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Modules of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in inside if exists(name)} or {node.module}
    return frozenset(name for name in found if f"{name}.".startswith("refil."))


def exists(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) != "refil"], ids=name_of)
def test_imports_point_to_lower_layers(path):
    own = name_of(path)
    for imported in imports(path) - {"refil"}:  # which is the version, and imports the rest later
        same_package = own.split(".")[:2] == imported.split(".")[:2]
        allowed = layer(imported) <= layer(own) if same_package else layer(imported) < layer(own)
        assert allowed, f"{own} imports {imported}"


def test_the_list_of_layers_in_the_guide_is_the_one_that_is_checked():
    """Each line names modules from left to right, up to two spaces; `training (all but X)` means those of no other line."""
    listed = [line.strip() for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if re.match(r"    \S.*  \S", line)]
    guide = [re.split(r"  +", line)[0] for line in listed[listed.index(next(x for x in listed if x.startswith("errors "))) :]]
    rank = {}
    for number, names in enumerate(guide):
        for name in re.sub(r"\(.*\)", "", names).replace("|", " ").split():
            rank[name] = number

    def row(module: str) -> int:
        name = module.removeprefix("refil.")
        return rank.get(name, rank.get(name.partition(".")[0], -1))

    for lower, higher in itertools.pairwise(LAYERS):
        assert max(map(row, lower)) <= min(map(row, higher)), (lower, higher)
    top = {path.relative_to(ROOT / "refil").parts[0].removesuffix(".py") for path in SOURCES} - {"__init__"}
    assert top == {name.partition(".")[0] for name in rank}


def test_environments_and_networks_do_not_know_each_other():
    for path in SOURCES:
        for one, other in (("refil.envs", "refil.nn"), ("refil.nn", "refil.envs")):
            if name_of(path).startswith(one):
                assert not any(name.startswith(other) for name in imports(path)), f"{name_of(path)} imports from {other}"


def test_there_is_no_import_cycle():
    graph = {name_of(path): imports(path) for path in SOURCES}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for imported in graph.get(name, ()):
                visit(imported, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_file_has_its_test(path):
    """A test in the matching file, which names the module; or in another one, which imports it or reaches it as listed."""
    relative = path.relative_to(ROOT / "refil")
    module = str(relative.with_suffix(""))
    if any(str(path.relative_to(ROOT)).startswith(plugin) for plugin in PLUGINS) or not has_code(path):
        return
    if module in TESTED_ELSEWHERE:
        assert name_of(path) in imports(ROOT / TESTED_ELSEWHERE[module]), f"{TESTED_ELSEWHERE[module]} imports no {module}"
    elif module in TESTED_THROUGH:
        test, text = TESTED_THROUGH[module]
        assert text in (ROOT / test).read_text(), f"{test} does not use {text}"
    else:
        test = ROOT / "tests" / relative.parent / f"test_{relative.name.lstrip('_')}"
        assert test.exists(), test
        word = path.stem.lstrip("_").replace("_", "[_-]")  # the module, or the command
        assert re.search(rf"(?<![a-z]){word}(?![a-z])", test.read_text()), f"{test} does not use {name_of(path)}"


def has_code(path: Path) -> bool:
    """Return whether a file defines functions, or is no `__init__.py`."""
    tree = ast.parse(path.read_text())
    return path.name != "__init__.py" or any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


def test_no_test_is_listed_for_a_file_that_is_gone():
    modules = {str(path.relative_to(ROOT / "refil").with_suffix("")) for path in SOURCES}
    assert modules >= {*TESTED_ELSEWHERE, *TESTED_THROUGH}


def test_importing_every_module_starts_no_backend():
    """No array may be created before the user's options are read."""
    names = [name_of(path) for path in SOURCES if name_of(path) not in NEED_EXTRAS]
    program = (
        f"from importlib import import_module\nfor name in {names}:\n    import_module(name)\n"
        "from jax._src import xla_bridge\nassert not xla_bridge.backends_are_initialized()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_file_begins_with_a_sentence(path):
    assert ast.get_docstring(ast.parse(path.read_text())) or not path.read_text()


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_have_at_most_250_lines(path):
    assert path.read_text().count("\n") <= 250 or str(path.relative_to(ROOT)) in LONG_FILES


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_and_benchmarks_have_at_most_250_lines_too(path):
    assert path.read_text().count("\n") <= LONG_TESTS.get(str(path.relative_to(ROOT)), (250, ""))[0]


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_take_at_most_six_arguments(path):
    """`self` and `cls` do not count."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = sum(argument.arg not in ("self", "cls") for argument in given)
            assert (
                count <= 6 or f"{name_of(path)}.{node.name}" in MANY_ARGUMENTS or name_of(path).startswith("refil.nn.kernels")
            ), f"{node.name} takes {count}"


def test_nine_of_ten_functions_have_at_most_20_lines():
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    )
    assert lengths[int(0.9 * len(lengths))] <= 20


@pytest.mark.slow  # for two minutes: the profiler is called for every function of JAX
def test_an_iteration_of_group_matching_enters_twelve_files():
    """All that a compiled iteration computes, from its tracing; not the trainer, which calls it and logs (rows 1 to 3)."""
    hardware.on_gpu()  # JAX is asked once per process, for the trainer before it compiles anything
    sizes = {"agents": 3, "cells": 4, "horizon": 6}
    asked = config.default("group_matching", "refil").with_options(sizes, {"size": 8, "heads": 2}, batch=4, buffer=16, envs=4)
    setup, entered = asked.build(), set()
    state = jax.eval_shape(lambda: loop.init(setup))

    def note(frame, event, _) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "refil"):
            entered.add(str(path.relative_to(ROOT / "refil")))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        jax.jit(functools.partial(loop.iterate, setup)).trace(state)
    finally:
        sys.setprofile(before)
    assert entered == {path.removeprefix("refil/") for path in walk()[3:15]}  # rows 4 to 15, twelve files


def walk() -> list[str]:
    """The files of docs/walk.md, in its order."""
    text = (ROOT / "docs" / "walk.md").read_text().partition("\n## ")[0]
    rows = [re.search(r"`(refil/[\w/]+\.py)`", line) for line in text.splitlines() if line.startswith("|")]
    return [row[1] for row in rows if row]


def test_the_walk_visits_files_before_those_that_they_import():
    visited = walk()
    assert len(visited) == len(set(visited)) == 15
    for number, path in enumerate(visited):
        earlier = {name_of(ROOT / each) for each in visited[:number]}
        assert not imports(ROOT / path) & earlier, f"{path} imports a file that the walk visits before it"


IDENTIFIERS, PHRASES = (
    [line.strip() for line in part.splitlines() if line.strip() and not line.startswith("#")]
    for part in (ROOT / "tests" / "retired.txt").read_text().split("# Phrases\n")
)
PATTERN = re.compile(  # phrases also at the start of a sentence
    "|".join(
        rf"(?<![\w-]){text}(?![\w-])"
        for text in [*map(re.escape, IDENTIFIERS), *(f"(?i:{phrase[0]}){re.escape(phrase[1:])}" for phrase in PHRASES)]
    )
)
AS_RUN = re.compile(r"```[^\n]*\n# as run at .*?```", re.DOTALL)  # commands of older versions
PROSE = [
    path
    for folder in ("refil", "tests", "docs", "benchmarks", "results", ".ci", ".github")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".html", ".js", ".css", ".yml", ".yaml", ".ipynb", ".sh") or path.name == "run"
    if path.is_file()
]
PROSE += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "Makefile", "mkdocs.yml", "pyproject.toml")]
PROSE += [ROOT / ".pre-commit-config.yaml", *sorted((ROOT / "refil" / "teams").glob("*.json"))]  # the cards of teams


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_retired_words_do_not_come_back(path):
    text = AS_RUN.sub("", path.read_text())
    found = {match[0] for match in PATTERN.finditer(text)}
    assert not found, f"see tests/retired.txt: {sorted(found)}"


def test_importing_the_package_imports_no_adapter_library():
    libraries = "'gymnasium', 'pettingzoo', 'jaxmarl', 'gymnax', 'flax', 'ray', 'starlette', 'uvicorn', 'matplotlib'"
    code = (
        f"import sys, refil, refil.adapters; refil.make('3m'); print([name for name in ({libraries}) if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
