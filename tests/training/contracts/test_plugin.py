"""What the file of a plug-in has to define."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from refil.errors import RefilError
from refil.training import contracts
from refil.training.contracts.plugin import check_parameters, kind


@dataclass(frozen=True)
class Config:
    size: int = 3


@dataclass(frozen=True)
class Unknown:
    size: "Missing" = 3  # type: ignore[name-defined] # noqa: F821


@dataclass(frozen=True)
class Nested:
    inner: Unknown = field(default_factory=Unknown)


@dataclass(frozen=True)
class Required:
    size: int


@dataclass(frozen=True)
class Reserved:
    sha256: str = ""


def module(**changes) -> SimpleNamespace:
    return SimpleNamespace(**({"Config": Config, "build": lambda config: config.size} | changes))


def test_options_have_their_defaults():
    options = contracts.default_options(module(), "mine", ("config",))
    assert options == Config()
    assert contracts.build(module(), "mine", options) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Config": dict}, "mine: Config must be a dataclass"),
        ({"Config": Required}, "mine: every option in Config needs a default; size has none"),
        ({"Config": Reserved}, "mine: an option in Config cannot be called sha256, which config.json needs itself"),
        ({"Config": Unknown}, r"mine: an annotation of Unknown cannot be read \(NameError: name 'Missing' is not defined\)"),
        ({"Config": Nested}, "mine: an annotation of Unknown cannot be read"),
        ({"DEFAULTS": {"steps": 3}}, r"mine: DEFAULTS must be a refil.types.EnvDefaults, not a dict"),
        ({"build": lambda: None}, r"build\(\) is called with \(config\), but its parameters are \(\)"),
        ({"build": 3}, r"build\(\) is an int, not a function"),
    ],
)
def test_invalid_plugins_are_named(changes, message):
    with pytest.raises(RefilError, match=message):
        contracts.default_options(module(**changes), "mine", ("config",))


def test_an_exception_in_build_is_a_sentence():
    def build(config):
        raise KeyError("size")

    with pytest.raises(RefilError, match=r"mine: build\(\) failed at .*test_plugin.py:\d+ in build\(\): KeyError: 'size'"):
        contracts.build(module(build=build), "mine", Config())


def test_functions_with_optional_parameters_can_be_called():
    check_parameters("mine", "step()", lambda state, *rest, more=1: state, ("state", "actions", "key"))


def test_user_files_are_those_with_a_path():
    assert contracts.is_user_file("folder/mine.py")
    assert not contracts.is_user_file("group_matching")


def test_types_are_named_in_words():
    words = [kind(value) for value in (None, int, (1, 2), np.zeros(3), 0.5, Config())]
    assert words == ["None", "the class int", "a tuple of 2", "an array of shape (3,)", "a float", "a Config"]
