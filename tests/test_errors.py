"""Hints in errors, and errors in a user's own code, which become a sentence that names the place."""

import ast
import re
import sys
from pathlib import Path

import pytest

import refil
from refil.errors import RefilError, closest, failure, list_choices, user_code

PACKAGE = Path(refil.__file__).parent
FLAGS_OF_OTHER_PROGRAMS = {"sweeps/slurm.py", "sweeps/local.py", "training/flags.py"}  # scancel, nvidia-smi, XLA
COMMANDS = {"__main__.py", "sweeps/process.py", "teams/card.py"}  # parse, start or print a command


def test_the_closest_choice_is_found_whatever_its_case():
    assert closest("refill", ["roma", "refil"]) == "refil"
    assert closest("mmm", ["3m", "MMM"]) == "MMM"
    assert closest("M", ["m", "M"]) == "M"
    assert closest("zzz", ["refil"]) is None


def test_all_choices_follow_the_closest():
    assert list_choices("2 agent", ("2 agents", "all")) == "did you mean '2 agents'? Available: 2 agents, all"
    assert list_choices("x", ("2 agents", "all")) == "available: 2 agents, all"


def test_the_sentence_names_the_function_the_file_and_the_line(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def step(state):\n    return inner(state)\n\n\ndef inner(state):\n    return state + 'a'\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    message = r"^mine.py: step\(\) failed at .*mine.py:6 in inner\(\): TypeError: unsupported operand"
    with pytest.raises(RefilError, match=message) as caught, user_code("mine.py: step()"):
        scope["step"](1)
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_sentence_is_not_wrapped_again():
    with pytest.raises(RefilError, match=r"^spec.agents is 0$"), user_code("mine"):
        raise RefilError("spec.agents is 0")


def test_long_messages_are_cut_to_their_first_line():
    assert failure("step()", ValueError("first\nsecond")) == "step() failed: ValueError: first"
    assert failure("step()", ValueError("they differ:\n\n  here and there\nmore")).endswith("they differ: here and there")
    assert len(failure("step()", ValueError("x" * 1000))) < 400
    assert failure("step()", KeyError()) == "step() failed: KeyError"


def test_a_plugin_that_ends_the_process_is_a_sentence():
    with pytest.raises(RefilError, match=r"^importing mine failed at .*: it ends the process \(SystemExit: 3\)"):  # noqa: SIM117
        with user_code("importing mine"):
            sys.exit(3)


def test_a_syntax_error_names_its_line(tmp_path):
    with pytest.raises(RefilError, match=r"importing mine failed at mine.py:2: SyntaxError"), user_code("importing mine"):
        compile("x = 1\nx = = 2\n", "mine.py", "exec")


def test_the_library_does_not_speak_of_flags():
    """No text outside `refil/cli` names a flag, so no error does; `refil.cli._advice` translates errors."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.startswith("cli/") or name in FLAGS_OF_OTHER_PROGRAMS | COMMANDS:
            continue
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        flags = [node.value for node in texts if id(node) not in documented and re.search(r"(?<![\w|-])--[a-z]", node.value)]
        assert not flags, f"{name}: {flags}"


def test_errors_of_the_library_name_no_flag_even_in_files_that_use_some():
    for path in (path for path in PACKAGE.rglob("*.py") if "cli" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and path.name != "__main__.py":
                texts = [
                    part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                assert not any(re.search(r"(?<![\w|-])--[a-z]", text) for text in texts), f"{path}: {texts}"
