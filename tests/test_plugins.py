"""Parts found by the name of their file."""

import importlib

import pytest

from refil import plugins
from refil.errors import RefilError


def test_a_files_name_is_its_name_and_private_files_have_none():
    names = plugins.names("refil.methods")
    assert "refil" in names
    assert not any(name.startswith("_") for name in names)


def test_an_unknown_name_is_refused_with_the_choices():
    with pytest.raises(RefilError, match=r"no 'qmax'; it has .*qmix_attention, .*refil,"):
        plugins.load("refil.methods", "qmax")


def test_a_file_of_ones_own_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('"""Mine."""\nclass Config: ...\ndef build(config): return 7\n')
    assert plugins.load("refil.envs", str(path)).build(None) == 7


@pytest.mark.parametrize(("text", "words"), [("x = 1", "has no Config"), (None, "there is no file")])
def test_a_file_that_is_none_is_refused(tmp_path, text, words):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RefilError, match=words):
        plugins.load("refil.envs", str(path))


@pytest.mark.parametrize(
    "package", ["refil.methods", "refil.envs", "refil.plots", "refil.experiments", "refil.envs.starcraft.scripts"]
)
def test_what_a_file_of_ones_own_needs_is_what_all_have(package):
    needed = importlib.import_module(package).NEEDED
    for name in plugins.names(package):
        assert all(hasattr(plugins.load(package, name), each) for each in needed)


def test_a_path_is_advised_only_where_it_is_taken(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("UNIT = 1")
    with pytest.raises(RefilError, match=r"no '.*mine.py'; it has .*zergling$"):
        plugins.load("refil.envs.starcraft.sim.units", str(path))
    with pytest.raises(RefilError, match=r"mine.py has no draw; it should have draw and table"):
        plugins.load("refil.plots", str(path))


@pytest.mark.parametrize("package", ["refil.methods", "refil.envs", "refil.cli", "refil.plots", "refil.experiments"])
def test_every_plug_in_says_what_it_is_in_a_line(package):
    for name in plugins.names(package):
        assert plugins.summary(package, name).endswith((".", ")", ")."))
