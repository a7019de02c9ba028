"""Arguments that decide which options there are."""

import pytest

from refil.cli._early_args import EarlyArgs, base_config, split_early_args
from refil.errors import RefilError
from refil.training import config


def test_early_arguments_are_separated_from_options():
    early, rest = split_early_args(["3-8sz", "--steps", "5", "--method=refil", "--out", "x", "--env.limit", "9"])
    assert early == EarlyArgs(env="3-8sz", method="refil", out="x")
    assert rest == ["--steps", "5", "--env.limit", "9"]


@pytest.mark.parametrize("arguments", [["--method"], ["--method", "--steps"], ["--out="]])
def test_an_early_argument_needs_a_value(arguments):
    with pytest.raises(RefilError, match="needs a value"):
        split_early_args(arguments)


@pytest.mark.parametrize("arguments", [["--out", "a", "--out", "b"], ["3m", "--method=refil", "--method", "x"]])
def test_an_early_argument_is_given_once(arguments):
    with pytest.raises(RefilError, match="is given twice"):
        split_early_args(arguments)


def test_an_empty_environment_is_refused():
    with pytest.raises(RefilError, match="ENV needs a value"):
        split_early_args([""])


def test_trust_takes_no_value():
    assert split_early_args(["--trust", "--resume", "run"])[0] == EarlyArgs(resume="run", trust=True)
    with pytest.raises(RefilError, match="takes no value"):
        split_early_args(["--trust=no"])


def test_config_excludes_environment_and_method():
    with pytest.raises(RefilError, match="omit ENV and --method"):
        base_config(EarlyArgs(config="x", env="3-8sz"))


def test_a_user_file_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text('"""Mine."""\nfrom refil.methods.refil import Config, build\n')
    monkeypatch.chdir(tmp_path)
    chosen = base_config(EarlyArgs(method="mine.py"))
    monkeypatch.chdir("/")
    assert config.read(chosen.to_json(), "here") == chosen
