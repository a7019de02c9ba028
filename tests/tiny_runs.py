"""A training run that takes seconds."""

from functools import partial

import jax
import numpy as np

from refil.training import config, counters
from refil.training.config import RunConfig
from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from refil.training.setup import Setup

ENV = {"agents": 3, "cells": 3, "horizon": 6}
METHOD = {"size": 8, "heads": 2, "mixing": 4}
FAST = {"steps": 200, "batch": 5, "envs": 2, "buffer": 20, "eval_every": 60, "eval_episodes": 4, "log_every": 10, "pack": ()}


def small(method: str = "refil", **changes) -> RunConfig:
    """Return the config of a run that takes seconds; without packing there is less to compile."""
    return config.default("group_matching", method).with_options(ENV, METHOD, **(FAST | changes))


def run(setup: Setup, state: TrainState | None = None, log_every: int = 10) -> tuple[TrainState, list[tuple[int, int]]]:
    """Train to the end; also return which seeds had a line of metrics due, after how many episodes."""
    state = state if state is not None else jax.jit(partial(loop.init, setup))()
    iterate = jax.jit(partial(loop.iterate, setup))
    mark_logged = jax.jit(partial(counters.mark_logged, setup.train, log_every))
    lines = []
    while (state.counters.env_steps < setup.train.steps).any():
        state = iterate(state)
        due = np.asarray(counters.log_due(setup.train, log_every, state.counters))
        lines += [(int(seed), int(state.counters.episodes[seed])) for seed in np.flatnonzero(due)]
        state = TrainState(mark_logged(state.counters), state.learner, state.replay)
    return state, lines
