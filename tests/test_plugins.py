"""Plug-ins found by the name of their file."""

import importlib

import pytest

from refil import plugins
from refil.errors import RefilError


def test_the_name_of_a_file_is_its_name_and_private_files_have_none():
    names = plugins.names("refil.methods")
    assert "refil" in names
    assert not any(name.startswith("_") for name in names)


def test_an_unknown_name_is_refused_with_the_closest_and_all_choices():
    with pytest.raises(
        RefilError, match=r"^unknown method 'refill'; did you mean 'refil'\? Available: .*qmix_attention, .*refil,"
    ):
        plugins.load("refil.methods", "refill")
    with pytest.raises(RefilError, match=r"^unknown method 'zzz'; available: .*refil,"):
        plugins.load("refil.methods", "zzz")


def test_short_names_suggest_the_methods_of_the_paper():
    for name, meant in (("qmix", "qmix_attention"), ("VDN", "vdn_attention")):
        with pytest.raises(RefilError, match=rf"^unknown method '{name}'; did you mean '{meant}'\?"):
            plugins.load("refil.methods", name)


@pytest.mark.parametrize(("package", "name"), [("refil.envs", "beacon"), ("refil.methods", "mingru")])
def test_the_names_of_examples_are_their_paths(package, name):
    with pytest.raises(RefilError, match=rf"'{name}'; it is an example, whose name is its path: /.*/examples/{name}.py$"):
        plugins.load(package, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smac", ["sets of battles such as 3-8sz and maps such as 3m", "as in 3s5z_vs_3s6z"]),
        ("StarCraft 2", ["sets of battles such as 3-8sz"]),
        ("corridor", ["SMAC's corridor", "6z_vs_24zg", "zg Zergling"]),
        ("3s5z-vs-3s6z", ["as in 3s5z_vs_3s6z"]),
        ("3m vs 4m", ["as in 3s5z_vs_3s6z"]),
        ("mmm2", ["did you mean 'MMM2'?"]),
    ],
)
def test_names_of_battles_are_explained(name, words):
    with pytest.raises(RefilError) as error:
        plugins.load("refil.envs", name)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_user_file_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('"""Mine."""\nclass Config: ...\ndef build(config): return 7\n')
    assert plugins.load("refil.envs", str(path)).build(None) == 7


@pytest.mark.parametrize(("text", "message"), [("x = 1", "does not define Config"), (None, "there is no file")])
def test_a_user_file_that_is_no_plug_in_is_refused(tmp_path, text, message):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RefilError, match=message):
        plugins.load("refil.envs", str(path))


@pytest.mark.parametrize(
    "package", ["refil.methods", "refil.envs", "refil.plots", "refil.experiments", "refil.envs.starcraft.scripts"]
)
def test_all_plug_ins_define_what_user_files_must_define(package):
    needed = importlib.import_module(package).REQUIRED
    for name in plugins.names(package):
        assert all(hasattr(plugins.load(package, name), each) for each in needed)


def test_errors_suggest_a_path_only_where_one_is_accepted(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("UNIT = 1")
    with pytest.raises(RefilError, match=r"unknown unit '.*mine.py'; .*zergling$"):
        plugins.load("refil.envs.starcraft.sim.units", str(path))
    with pytest.raises(RefilError, match=r"unknown figure 'pie'; .*the path of a \.py file"):
        plugins.load("refil.plots", "pie")
    with pytest.raises(RefilError, match=r"mine.py does not define draw; it must define draw and table"):
        plugins.load("refil.plots", str(path))


@pytest.mark.parametrize("package", ["refil.methods", "refil.envs", "refil.cli", "refil.plots", "refil.experiments"])
def test_every_plug_in_has_a_one_line_summary(package):
    for name in plugins.names(package):
        summary = plugins.summary(package, name)
        assert "\n" not in summary
        assert summary.endswith((".", ")", ")."))
