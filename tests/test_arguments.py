"""Bad arguments of the Python API are one sentence; in a process of its own, because tests check types elsewhere."""

import json
import re
import subprocess
import sys

import pytest

ENV = "available: 10m_vs_11m, .*group_matching, .*or the path of a .py file"
CASES = {  # calls, and what their errors say
    "refil.make(3)": rf"^the name of the environment must be a string, not 3; {ENV}",
    "refil.make(None)": rf"^the name of the environment must be a string, not None; {ENV}",
    "refil.make('zz')": r"^unknown environment 'zz'; available: 10m_vs_11m, ",
    "refil.make('group_matching', cells='many')": r"^env.cells should be of type int, not \"many\"$",
    "refil.train(env)": rf"^the name of the environment must be a string, not an Environment; {ENV}",
    "refil.train('3m', method=3)": "^the name of the method must be a string, not 3; available: iql_attention, ",
    "refil.train('3m', env_options=3)": "^env_options must be a dictionary of options, not 3$",
    "refil.train('3m', method_options=['size'])": "^method_options must be a dictionary of options, not a list$",
    "refil.make(pathlib.Path('my_env.py'))": "^there is no file .*/my_env.py$",
    "refil.train('3m', pathlib.Path('folder') / 'mine.py')": "^there is no file .*/folder/mine.py$",
    "refil.train('3m', init='3-8sz')": "^init must be a Team, not '3-8sz'; refil.load returns that of a run.*3-8sz",
    "refil.load(3)": "^the name of a team must be a string, not 3; available: .*3-8sz",
    "refil.evaluate('3-8sz')": "^team must be a Team, not '3-8sz'; refil.load returns ",
    "refil.evaluate(team, env='3m')": "^env must be an environment from refil.make, not '3m'$",
    "refil.evaluate(team, episodes=0)": "^episodes must be 1 or more, not 0$",
    "refil.evaluate(team, episodes=2.5)": "^episodes must be an int, not 2.5$",
    "refil.evaluate(team, episodes=True)": "^episodes must be an int, not True$",
    "team.play(0)": "^episodes must be 1 or more, not 0$",
    "team.play(-3)": "^episodes must be 1 or more, not -3$",
    "team.play('all')": "^episodes must be an int, not 'all'$",
    "team.play(task=3)": "^unknown task 3; available: group_matching$",
    "refil.configure(precision='fp8')": "^precision must be one of float32, tf32, bf16, auto, not 'fp8'$",
    "refil.configure(kernels='maybe')": "^kernels must be one of auto, on, off, not 'maybe'$",
    "refil.configure(kernels=['on'])": "^kernels must be one of auto, on, off, not a list$",
}
PROGRAM = f"""
import json, pathlib
import jax, refil
from refil.training import config
setup = config.default("group_matching", "vdn_attention").build()
env, team = refil.make("group_matching"), refil.Team(setup.method.init(jax.random.key(0)), setup.env, "mine")
messages = {{}}
for call in {list(CASES)}:
    try:
        eval(call)
    except refil.RefilError as error:
        messages[call] = str(error)
    except Exception as error:
        messages[call] = f"another error: {{error!r}}"
print(json.dumps(messages))
"""


@pytest.fixture(scope="module")
def messages() -> dict[str, str]:
    """The message of every call that fails."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("call", CASES)
def test_errors_name_the_bad_argument_and_the_choices(call, messages):
    assert re.search(CASES[call], messages.get(call, "no error")), messages.get(call)
