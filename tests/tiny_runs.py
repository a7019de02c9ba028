"""A training that takes seconds."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np

from refil.training import config
from refil.training.config import Experiment
from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from refil.training.setup import Loop


def small(method: str = "refil", **changes) -> Experiment:
    """A game that takes seconds."""
    default = config.default("group_matching", method)
    options = replace(
        default.options,
        env=replace(default.options.env, agents=3, cells=3, horizon=6),
        method=replace(default.options.method, size=8, heads=2, mixing=4),
    )
    fast = {"steps": 200, "batch": 5, "envs": 2, "buffer": 20, "eval_every": 60, "eval_episodes": 4, "log_every": 10}
    unfolded = {"fold": ()}  # which leaves less to compile
    return replace(default, options=replace(options, **(fast | unfolded | changes)))


def run(built: Loop, training: TrainState | None = None) -> tuple[TrainState, list[tuple[int, int]]]:
    """Train to the end; also which seeds had a line due, after how many episodes."""
    training = training if training is not None else jax.jit(partial(loop.begin, built))()
    iterate, report = jax.jit(partial(loop.iterate, built)), jax.jit(partial(loop.report, built))
    lines = []
    while (training.env_steps < built.schedule.steps).any():
        training = iterate(training)
        due = np.asarray(loop.line_due(built, training))
        lines += [(int(seed), int(training.episodes[seed])) for seed in np.flatnonzero(due)]
        training = report(training)
    return training, lines
