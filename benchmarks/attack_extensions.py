"""Train broken extensions, each with one mistake; every one must be refused in one sentence that names the mistake.

    python benchmarks/attack_extensions.py            # all of them
    python benchmarks/attack_extensions.py --every 8  # a sample

Nothing may be left behind in the folder of the run, and no traceback may be printed.
"""

import argparse
import contextlib
import io
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from refil.__main__ import main as refil

EXAMPLES = Path(__file__).parent.parent / "refil" / "examples"
ENV, LOSS, UTILITY, MIXER = "beacon.py", "iql_lambda.py", "mingru.py", "weighted_vdn.py"
ON_POLICY = "../methods/vdn_pqn.py"


class Mistake(NamedTuple):
    """A change of one of the examples, and a pattern of the sentence that must name it."""

    file: str
    old: str
    new: str
    message: str


RETURNED = "return after, Outcome(reward=-0.1 + 1.0 * (after.arrived - state.arrived), terminated=solved, won=solved)"
OBSERVED = "        return Observation("
TD_LOSS = "    return td.loss(td.select_q(q, batch), td_targets, batch.valid_agents)"
BUILT = "    return on_policy_q_learning(partial(on_policy_model, config, spec), config.discount, config)"
HEAD = "        return self.head(features)"
RECUR = "        return state, state"


def on_policy(changes: str) -> str:
    """Return the end of a `build` that changes the method that it would have returned."""
    made = BUILT.replace("return", "method =")
    return f"{made}\n    from dataclasses import replace\n\n    return replace(method, {changes})"


MISTAKES = [
    Mistake(ENV, "actions=3, horizon", "actions=5, horizon", r"observe\(\) gives available for 3 actions, spec.actions is 5"),
    Mistake(ENV, "features=config.cells + 1,", "features=config.cells,", r"entities for 6 features, spec.features is 5"),
    Mistake(ENV, "agents=MAX_AGENTS,", "agents=MAX_AGENTS - 1,", r"observe\(\) gives visible for 4 agents, spec.agents is 3"),
    Mistake(
        ENV,
        "agents[:, None] | (jnp.arange(3) == 1)",
        "agents[:, None] & (jnp.arange(3) == 1)",
        "absent agent 2 has no available",
    ),
    Mistake(ENV, '"left", "stay", "right")', '"left", "stay", "left")', "action_names has 'left' more than once"),
    Mistake(ENV, "    cells: PositiveInt", '    cells: "Missing"', r"an annotation of Config cannot be read \(NameError"),
    Mistake(ENV, "MAX_AGENTS = 4", "raise SystemExit(3)", r"it ends the process \(SystemExit: 3\)"),
    Mistake(ENV, "agents=MAX_AGENTS,", "agents=0,", r"spec.agents is 0; it must be 1 or more"),
    Mistake(ENV, "agents=MAX_AGENTS,", "agents=7,", r"spec.agents 7 is more than spec.entities 5"),
    Mistake(ENV, "horizon=config.horizon)", "horizon=-1)", r"spec.horizon is -1; it must be 1 or more"),
    Mistake(ENV, "horizon=config.horizon)", "horizon=8.0)", r"spec.horizon is 8.0; it must be an int"),
    Mistake(ENV, "    return Beacon(config", "    Beacon(config", r"build\(\) returned None; it must return an environment"),
    Mistake(
        ENV, "    return Beacon(config, spec, tasks=np.array([2, 3, 4]))", "    return Beacon", r"returned the class Beacon"
    ),
    Mistake(ENV, "np.array([2, 3, 4])", "np.array([2, 3])", r"tasks has 2 rows, task_names has 3"),
    Mistake(ENV, "np.array([2, 3, 4])", "[2, 3, 4]", r"tasks holds an int; it must hold arrays with a row per task"),
    Mistake(ENV, '"3 agents", ', '"2 agents", ', r"task_names has '2 agents' more than once"),
    Mistake(ENV, "    def observe(", "    def look(", r"returned a Beacon without observe"),
    Mistake(
        ENV,
        'def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray)',
        "def step(self, state, actions)",
        r"step\(\) is called with \(state, actions, key\), but its parameters are \(state, actions\)",
    ),
    Mistake(
        ENV, "def build(config: Config)", "def build()", r"build\(\) is called with \(config\), but its parameters are \(\)"
    ),
    Mistake(
        ENV,
        "        return State(jax.random.randint",
        "        State(jax.random.randint",
        r"reset\(\) returned None; a state is",
    ),
    Mistake(
        ENV, RETURNED, "return after, -0.1, solved, {}", r"step\(\) returned a tuple of 4; it must return \(state, Outcome"
    ),
    Mistake(ENV, RETURNED, "return after", r"step\(\) returned a State; it must return \(state, Outcome"),
    Mistake(
        ENV, "terminated=solved,", "terminated=after.arrived,", r"step\(\) gives terminated of type int32; it must be of bool"
    ),
    Mistake(
        ENV,
        "1.0 * (after.arrived - state.arrived)",
        "after.cell",
        r"step\(\) gives reward with shape \(5,\); it must be a scalar",
    ),
    Mistake(
        ENV,
        "State(jnp.append(moved, state.cell[MAX_AGENTS])",
        "State(jnp.append(moved, 1.0)",
        r"step\(\) returned a state of another type than reset\(\): float32 \(5,\) in .cell instead of int32 \(5,\)",
    ),
    Mistake(ENV, OBSERVED, "        return dict(", r"observe\(\) returned a dict; it must return a refil.types.Observation"),
    Mistake(ENV, "            present=present,\n", "            present=None,\n", r"observe\(\) gives no present"),
    Mistake(
        ENV, "present=present,\n", "present=present.astype(float),\n", r"gives present of type float32; it must be of bool"
    ),
    Mistake(
        ENV,
        "jnp.where(present[:, None], features, 0.0)",
        "jnp.where(present[:, None], features / 0.0, 0.0)",
        r"observe\(\) gives (nan|inf) in feature \d",
    ),
    Mistake(ENV, "reward=-0.1 +", "reward=jnp.log(-1.0) +", r"step\(\) gives reward nan at step 0 of task '2 agents'"),
    Mistake(
        ENV,
        "available=agents[:, None] | (jnp.arange(3) == 1)",
        "available=jnp.zeros((MAX_AGENTS, 3), bool)",
        r"agent 0 has no available action at step 0",
    ),
    Mistake(
        ENV,
        "        solved = after",
        "        if after.arrived == 2:\n            pass\n        solved = after",
        r"step\(\) failed at .*beacon.py:\d+ in step\(\): TracerBoolConversionError: Attempted boolean conversion",
    ),
    Mistake(
        ENV,
        "state.cell[:MAX_AGENTS] + actions - 1",
        "state.cell + actions - 1",
        r"step\(\) failed at .*beacon.py:\d+ in step\(\): TypeError: add got incompatible shapes",
    ),
    Mistake(
        ENV, "    cells: PositiveInt = 5 ", "    cells: PositiveInt ", r"every option in Config needs a default; cells has none"
    ),
    Mistake(
        ENV,
        "    cells: PositiveInt = 5 ",
        "    name: str = 'x'\n    cells: PositiveInt = 5 ",
        r"an option in Config cannot be called name, which config.json needs itself",
    ),
    Mistake(ENV, "MAX_AGENTS = 4", "MAX_AGENTS = 4 +", r"beacon.py is not a Python file: line \d+"),
    Mistake(ENV, "Outcome(reward=", 'Outcome(metrics={"far": 1.0}, reward=', r"gives metrics \('far',\), metric_names is \(\)"),
    Mistake(LOSS, TD_LOSS, TD_LOSS + "[0]", r"loss\(\) returned an array of shape \(\); it must return \(loss, metrics\)"),
    Mistake(
        LOSS, TD_LOSS, "    return td_targets.mean(axis=0), {}", r"loss\(\) returned a loss with shape .*it must be a scalar"
    ),
    Mistake(
        LOSS,
        TD_LOSS,
        TD_LOSS.replace("return ", "value, metrics = ") + "\n    return value, metrics | {'env_steps': value}",
        r"loss\(\) returned a metric 'env_steps'; refil logs",
    ),
    Mistake(
        LOSS, TD_LOSS, TD_LOSS.replace("return ", "value, _ = ") + "\n    return value, {'q': q}", r"metric 'q' with shape"
    ),
    Mistake(
        LOSS,
        "key: PRNGKeyArray, config: Config",
        "config: Config",
        r"loss\(\) is called with \(model, target_model, batch, key\)",
    ),
    Mistake(
        LOSS,
        "    trace: UnitFloat = 0.8 ",
        "    sha256: str = ''\n    trace: UnitFloat = 0.8 ",
        r"an option in Config cannot be called sha256",
    ),
    Mistake(LOSS, "return optax.chain(", "return (", r"optimizer\(\) returned a tuple of 2; it must return an optax optimizer"),
    Mistake(LOSS, "(1 - step) * old + step * new, target, model)", "old, target)[0]", r"target_update\(\).*"),
    Mistake(LOSS, "    return Method(", "    return dict(", r"build\(\) returned a dict; it must return a refil.types.Method"),
    Mistake(LOSS, "batch.valid_agents)", "batch.valid)", r"loss\(\) failed at .*iql_lambda.py:\d+ in loss\(\)"),
    Mistake(UTILITY, HEAD, HEAD + "[..., :2]", r"q_values\(\) of MinGruUtility returned shape .* = \(1, 2, 4, 3\)"),
    Mistake(
        UTILITY, RECUR, "        return state", r"recur\(\) of MinGruUtility returned an array of shape .*; it must return"
    ),
    Mistake(UTILITY, "    def initial_state", "    def start", r"MinGruUtility has recur\(\) but no initial_state\(\)"),
    Mistake(UTILITY, "jnp.zeros((*batch, ", "jnp.zeros((", r"initial_state\(\) of MinGruUtility returned shape \(64,\)"),
    Mistake(
        UTILITY,
        "last_action_dim: int = eqx.field(static=True)",
        "last_action_dim: int",
        r"the model has int32 in .utility.last_a",
    ),
    Mistake(
        UTILITY,
        "    return Model(utility, mixing",
        "    return (utility, mixing",
        r"init\(\) returned a tuple of 2, which has no",
    ),
    Mistake(MIXER, ".sum(axis=(0, -1))", ".sum(axis=-1)", r"value of WeightedVdn must return \[\*batch\]"),
    Mistake(MIXER, ".astype(jnp.float32), ()", ".astype(jnp.float32)[0], ()", r"context of WeightedVdn must return a pair"),
    Mistake(
        ON_POLICY,
        BUILT,
        "    return dict()",
        r"build\(\) returned a dict; it must return a refil.learning.onpolicy.OnPolicyMethod",
    ),
    Mistake(
        ON_POLICY, 'ALGORITHM = "onpolicy"', "", r"build\(\) returned an OnPolicyMethod; it must return a refil.types.Method"
    ),
    Mistake(ON_POLICY, '"onpolicy"', '"on-policy"', r"ALGORITHM is 'on-policy'; it must be one of 'replay', 'onpolicy'"),
    Mistake(ON_POLICY, '"onpolicy"', "3", r"ALGORITHM is 3; it must be one of 'replay', 'onpolicy'"),
    Mistake(ON_POLICY, BUILT, on_policy("views=lambda visible: visible"), r"views\(\) is called with \(visible, groups\)"),
    Mistake(
        ON_POLICY,
        BUILT,
        on_policy("views=lambda visible, groups: visible"),
        r"views\(\) returned shape \(4, 5\); it must be \[views",
    ),
    Mistake(ON_POLICY, BUILT, on_policy("views=lambda visible, groups: 1.0 * visible[None]"), r"views\(\) returned .*float32"),
    Mistake(
        ON_POLICY,
        BUILT,
        on_policy("greedy_values=lambda model, batch: batch.rewards"),
        r"greedy_values\(\) returned shape \(2, 32\); it must be \[batch, timesteps\] = \(2, 33\)",
    ),
    Mistake(
        ON_POLICY,
        BUILT,
        on_policy("greedy_values=lambda model, batch: 0.0"),
        r"greedy_values\(\) returned shape \(\); it must be",
    ),
    Mistake(ON_POLICY, BUILT, on_policy("loss=lambda model, batch: 0.0"), r"loss\(\) is called with \(model, batch, targets\)"),
    Mistake(
        ON_POLICY,
        BUILT,
        on_policy("loss=lambda model, batch, targets: targets.mean()"),
        r"loss\(\) returned .*it must return \(loss",
    ),
    Mistake(ON_POLICY, BUILT, on_policy("loss=lambda model, batch, targets: (targets, {})"), r"a loss with shape \(2, 32\)"),
    Mistake(
        ON_POLICY,
        BUILT,
        on_policy("loss=lambda model, batch, targets: (targets.mean(), {'learning_rate': targets.mean()})"),
        r"loss\(\) returned a metric 'learning_rate'; refil logs",
    ),
    Mistake(ON_POLICY, BUILT, on_policy("init=lambda key: (key, key)"), r"init\(\) returned a tuple of 2, which has no"),
    Mistake(ON_POLICY, BUILT, on_policy("discount='high'"), r"discount is 'high'; it must be a number from 0 to 1"),
    Mistake(ON_POLICY, BUILT, on_policy("num_groups=0"), r"num_groups is 0; it must be an int of 1 or more"),
]


class Attempt(NamedTuple):
    """How `refil train` ended: the exit code, what it printed, and the files it left."""

    code: int | str
    printed: str
    left: list[str]


def attempt(mistake: Mistake, folder: Path) -> Attempt:
    """Train an extension with this mistake."""
    text = (EXAMPLES / mistake.file).read_text()
    assert text.count(mistake.old) >= 1, f"{mistake.file} has no {mistake.old!r}"
    extension, out = folder / Path(mistake.file).name, folder / "run"
    extension.write_text(text.replace(mistake.old, mistake.new, 1))
    env, method = (extension, "vdn_attention") if mistake.file == ENV else (EXAMPLES / ENV, extension)
    sys.argv = ["refil", "train", str(env), "--method", str(method), "--out", str(out), "--steps", "100"]
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            refil()
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException as error:
            code, _ = type(error).__name__, printed.write(str(error))
    left = [
        str(path.relative_to(folder)) for path in folder.rglob("*") if path != extension and "__pycache__" not in path.parts
    ]
    return Attempt(code, printed.getvalue().strip(), left)


def verdict(mistake: Mistake, found: Attempt) -> str:
    """Return what is wrong with the answer to a mistake, or "ok"."""
    if found.code != 2:
        return f"exit code {found.code}"
    if "\n" in found.printed or "Traceback" in found.printed:
        return "more than one line"
    if found.left:
        return f"left {', '.join(found.left)}"
    return "ok" if re.search(mistake.message, found.printed) else "another sentence"


def main() -> None:
    """Run the attack and print a line per mistake and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="try every n-th mistake only")
    parser.add_argument("--file", default="", help="try mistakes in this example only")
    args = parser.parse_args()
    chosen, verdicts = [mistake for mistake in MISTAKES if args.file in mistake.file][:: args.every], []
    for number, mistake in enumerate(chosen):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = attempt(mistake, Path(folder).resolve())
        verdicts.append(verdict(mistake, found))
        print(f"{number:3d} {verdicts[-1]:>8s} {time.monotonic() - started:5.1f} s  {found.printed[-400:]}", flush=True)
    print(f"{verdicts.count('ok')} of {len(verdicts)} mistakes were named in one sentence, with nothing left behind")
    sys.exit(0 if set(verdicts) == {"ok"} else 1)


if __name__ == "__main__":
    main()
