"""refil check: a line per property, and exit code 1 if one does not hold."""

from functools import partial
from pathlib import Path

import pytest

from refil.checks.report import Check

EXAMPLES = Path(__file__).parent.parent.parent / "refil" / "examples"


def test_a_good_environment_has_a_line_per_property(refil):
    out, _, code = refil("check", str(EXAMPLES / "beacon.py"))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "beacon.py: an environment with 4 agents, 5 entities, 6 features, 3 actions, 3 tasks"
    assert any(line.split()[:2] == ["padding", "ok"] for line in lines)
    assert lines[-1].startswith("10 ok, 2 not applicable, in ")


def test_a_broken_environment_ends_with_code_1(refil, tmp_path):
    path = tmp_path / "broken.py"
    text = (EXAMPLES / "beacon.py").read_text()
    path.write_text(text.replace("jnp.where(present[:, None], features, 0.0)", "features.astype(jnp.float32)"))
    out, _, code = refil("check", str(path))
    assert code == 1
    assert "absent entities have features up to 1; they must be zero" in out
    assert "actions of absent agents change observations by up to 1" in out
    assert "2 FAILED" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "unknown environment 'nothing'"),
        (("group_matching", "--env", "3m"), "--env is for methods, and group_matching is an environment"),
    ],
)
def test_bad_arguments_are_one_sentence(refil, arguments, message):
    _, error, code = refil("check", *arguments)
    assert code == 2
    assert message in error


def test_a_file_whose_build_takes_three_parameters_is_refused(refil, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("Config = None\ndef build(one, two, three): ...\n")
    assert "must be build(config) or build(config, spec)" in refil("check", str(path))[1]


def test_methods_are_reported_in_sentences(refil, monkeypatch):
    from refil.checks import methods

    chosen = {"step = unroll": methods.step_equals_unroll, "finite gradients": methods.gradients_are_finite}
    monkeypatch.setattr(
        methods,
        "all_checks",
        lambda subject, seed: [Check(name, partial(each, subject, seed)) for name, each in chosen.items()],
    )
    out = refil("check", "vdn_attention")[0]
    assert "also where nobody sees anything, one agent alone, one action, agents die" in out
    assert "at most 0" not in out


@pytest.mark.slow
def test_td_lambda_as_it_is_usually_written_fails_and_the_example_passes(refil, tmp_path):
    path = tmp_path / "usual_lambda.py"
    text = (EXAMPLES / "iql_lambda.py").read_text().replace("td.lambda_targets(", "usual_lambda_targets(")
    source = Path(__file__).parent.parent / "checks" / "test_methods.py"
    function = source.read_text().partition("def usual_lambda_targets")[2].partition("\n\n\n")[0]
    path.write_text(f"{text}\n\nimport jax.numpy as jnp\n\n\ndef usual_lambda_targets{function}\n")
    out, _, code = refil("check", str(path))
    assert code == 1
    assert "FAILED          packing changes the loss from" in out
    assert "1 FAILED" in out
    out, _, code = refil("check", str(EXAMPLES / "iql_lambda.py"))
    assert code == 0
