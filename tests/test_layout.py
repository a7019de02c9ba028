"""The shape of the package: imports point one way, and every file has its test."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "refil").rglob("*.py"))

# A file imports only from layers above its own in this list, or from its own.
LAYERS = [
    ["refil.settings", "refil.storage.serialization", "refil.training.devices", "refil.pallas"],
    ["refil.plugins", "refil.types", "refil.stats", "refil.scene"],
    [
        "refil.envs",
        "refil.nn",
        "refil.learning.partitions",
        "refil.learning.td",
        "refil.training.replay.buffer",
        "refil.training.replay.packing",
    ],
    ["refil.exploration", "refil.methods"],
    ["refil.rollout", "refil.training.replay.learner", "refil.training.evaluation", "refil.training.replay.compression"],
    ["refil.training.setup"],
    ["refil.training.replay.update"],
    ["refil.training.replay.loop"],
    ["refil.training.config"],
    ["refil.storage.run_dir", "refil.storage.progress"],
    ["refil.storage.loggers", "refil.plots", "refil.viewer"],
    ["refil.experiments"],
    ["refil.training.trainer"],
    ["refil.cli"],
    ["refil.__main__"],
]
# These are covered by the contract tests of their kind, so that adding one stays a change of one file.
PLUGINS = ("envs", "methods", "plots", "experiments", "commands")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer(name: str) -> int:
    for rank, modules in enumerate(LAYERS):
        if any(name == module or name.startswith(module + ".") for module in modules):
            return rank
    raise AssertionError(f"{name} is in no layer")


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in inside if (ROOT / Path(*name.split("."))).with_suffix(".py").exists()}
            found |= modules or {node.module}
    return {name for name in found if name.startswith("refil.")}


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) != "refil"], ids=name_of)
def test_imports_point_to_higher_layers(path):
    for imported in imports(path):
        assert layer(imported) <= layer(name_of(path)), f"{name_of(path)} imports {imported}"


def test_worlds_and_networks_know_nothing_of_each_other():
    for path in SOURCES:
        for one, other in (("refil.envs", "refil.nn"), ("refil.nn", "refil.envs")):
            if name_of(path).startswith(one):
                assert not any(name.startswith(other) for name in imports(path)), f"{name_of(path)} imports from {other}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_file_has_its_test(path):
    parts = path.relative_to(ROOT / "refil").parts
    if path.name.startswith("__") or parts[0] in PLUGINS:
        return
    covered = {
        "types": "envs",
        "nets/utility": "methods",
        "nets/mixers": "methods",
        "nets/messages": "methods",
        "nets/updet": "methods",
        "nets/pooling": "methods",
        "progress": "train",
        "loggers": "train",
        "scene": "envs",
    }
    name = covered.get("/".join(parts).removesuffix(".py"))
    mirror = ROOT / "tests" / f"test_{name}.py" if name else ROOT.joinpath("tests", *parts[:-1], f"test_{parts[-1]}")
    assert mirror.exists(), mirror


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_importing_makes_no_array(path):
    """Nothing may start a backend before the user's options are read."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
            for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
                assert not ast.unparse(call.func).startswith(("jnp.", "jax.")), ast.unparse(call)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_file_begins_with_a_sentence(path):
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text or not path.read_text()
