"""Flags in errors and suggestions."""

import pytest

from refil.cli import _flags
from refil.errors import RefilError
from tests.tiny_runs import small


def test_flags_are_formatted_as_users_type_them():
    values = {("--pack", ()): "--pack", ("--pack", (0.25, 0.5)): "--pack 0.25 0.5", ("--lr", 0.1): "--lr 0.1"}
    switches = {
        ("--deterministic", True): "--deterministic",
        ("--env.jitter", False): "--env.no-jitter",
        ("--deterministic", False): "--no-deterministic",
    }
    for case, text in (values | switches).items():
        assert _flags.format_flag(*case) == text


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("train.steps 5 is less than algorithm.target_every", "--steps 5 is less than --target-every"),
        ("env.groups 9 is more than env.agents 8.", "--env.groups 9 is more than --env.agents 8."),
        ("cannot resume with method.name a instead of b", "cannot resume with --method a instead of b"),
        ("there is no file /x/train.steps", "there is no file /x/train.steps"),
        ("train.steps.py and train.step", "train.steps.py and train.step"),
    ],
)
def test_paths_in_errors_become_flags(message, translated):
    with pytest.raises(RefilError) as error, _flags.flags_in_errors(small()):
        raise RefilError(message)
    assert str(error.value) == translated
