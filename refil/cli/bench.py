"""Measure how fast an environment is simulated and a method learns on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path

from refil.cli import _flags, _measure
from refil.cli._early_args import base_config, split_early_args
from refil.errors import RefilError
from refil.settings import MAX_INT, Flat, PositiveInt, from_command_line
from refil.storage.progress import ProgressBar
from refil.training.config import RunConfig

HELP = """Measure how fast an environment is simulated and a method learns on this machine, with an untrained policy.

    refil bench [ENV] [--method NAME] [options]

env_steps_per_s: environment steps per second while playing, including the choice of actions.

ms_per_update: milliseconds per gradient update and seed, including everything else that learning does.

ms_rebuild, ms_forward, ms_backward, ms_optimizer (with --parts): how one update of one seed, without packing, divides into
rebuilding observations from the replay buffer, the loss, its gradient, and the optimizer. On-policy methods have ms_targets,
ms_forward and ms_backward instead, for all updates from one rollout.

train_steps_per_s: environment steps per second of the whole training loop, over all seeds.

minutes_for_10m: minutes that 10 million steps of each seed would take at this rate, without evaluations. Episodes change in
length as the team learns, and the rate with them.

compile_s: seconds to trace and compile the training loop. compile_cached_s: the same with JAX's compilation cache.

state_bytes: size of the state of training, replay buffers included. peak_bytes: peak memory of the device, if it reports that.

Options that matter only to whole runs (--steps, --log-every, --eval-every, --save-every and so on) have no effect.

With --random only the environment is measured: uniformly random available actions, observations of every timestep, and a
reset of every episode that ends.

The options and defaults below are those of {env} with {method}."""


@dataclass(frozen=True)
class BenchArgs:
    """The run to measure, and how."""

    run: Flat[RunConfig]
    json: bool = False  # Print the result as one JSON object
    repeats: PositiveInt = 5  # Number of timings, of which the median is reported
    random: bool = False  # Measure only the environment, with random actions
    parts: bool = False  # Also time the parts of an update, which doubles the compilation time
    profile: Path | None = None  # Folder for a trace of one iteration, for TensorBoard or Perfetto


def main(arguments: list[str]) -> None:
    """Print the measurements."""
    early, rest = split_early_args(arguments)
    for name in ("resume", "out", "init_from"):
        if getattr(early, name) is not None:
            raise RefilError(f"--{name.replace('_', '-')} is an option of refil train; refil bench stores no run")
    base = base_config(early)
    text = HELP.format(env=base.env.name, method=base.method.name)
    args = from_command_line(BenchArgs, rest, "refil bench", text, BenchArgs(base))
    config = args.run.with_options(steps=MAX_INT)  # seeds that have made all their steps would stop learning
    with _flags.flags_in_errors(config), ProgressBar() as progress:
        if args.random:
            result = _measure.measure_env(config, args.repeats, progress)
        else:
            result = _measure.measure_training(config, args.repeats, args.parts, args.profile, progress)
    if args.json:
        print(json.dumps(result))
        return
    player = "random actions" if args.random else base.method.name
    seeds = f"{result['seeds']} seed{'s' if result['seeds'] > 1 else ''}"
    print(f"{player} on {base.env.name}; {result['device']}; {result['envs']} environments, {seeds}")
    for name, value in result.items():
        if name not in ("device", "envs", "seeds"):
            print(f"  {name:<18} {value:>14,.1f}")
