"""Training runs that take seconds."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np

from refil.training import config, counters
from refil.training.config import RunConfig
from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from refil.training.setup import Setup

LOG_EVERY = 10


def small(method: str = "refil", **changes) -> RunConfig:
    """Return the config of a small game; `changes` are fields of `train`, `algorithm` or `output`."""
    default = config.default("group_matching", method)
    chosen = {"size": 8, "heads": 2, "mixing": 4}
    method_options = {name: value for name, value in chosen.items() if hasattr(default.method.options, name)}
    fast = {"steps": 200, "batch": 5, "envs": 2, "buffer": 20, "eval_every": 60, "eval_episodes": 4, "log_every": LOG_EVERY}
    fast["pack"] = ()  # less to compile
    env_options = {"agents": 3, "cells": 3, "horizon": 6}
    return default.with_options(env_options, method_options, **(fast | changes))


class Programs:
    """The compiled programs of a setup; `traces` counts how often the iteration was traced."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.traces = setup, 0
        self.init, self.iterate = jax.jit(partial(loop.init, setup)), jax.jit(self._iterate)
        self.log_due = jax.jit(partial(counters.log_due, setup.train, LOG_EVERY))
        self.mark_logged = jax.jit(partial(counters.mark_logged, setup.train, LOG_EVERY))

    def _iterate(self, state: TrainState) -> TrainState:
        self.traces += 1
        return loop.iterate(self.setup, state)

    def run(self, state: TrainState | None = None) -> tuple[TrainState, list[tuple[int, int]]]:
        """Train to the end; also return which seeds had a line of metrics due, after how many episodes."""
        state, lines = self.init() if state is None else state, []
        while (np.asarray(state.counters.env_steps) < self.setup.train.steps).any():
            state = self.iterate(state)
            due = np.asarray(self.log_due(state.counters))
            lines += [(int(seed), int(state.counters.episodes[seed])) for seed in np.flatnonzero(due)]
            state = replace(state, counters=self.mark_logged(state.counters))
        return state, lines


def run(setup: Setup, state: TrainState | None = None) -> tuple[TrainState, list[tuple[int, int]]]:
    """Train to the end with newly compiled programs."""
    return Programs(setup).run(state)
