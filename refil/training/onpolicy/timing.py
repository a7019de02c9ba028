"""Prefixes of the updates from a rollout, for `refil bench --parts`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from refil.training import devices
from refil.training.onpolicy import update
from refil.training.onpolicy.loop import Rollout, TrainState, batch_to_learn
from refil.training.onpolicy.update import LearnerState
from refil.training.setup import Setup
from refil.types import EpisodeBatch


def prefixes(setup: Setup, state: TrainState, played: Rollout) -> dict[str, Callable[[], Any]]:
    """Return compiled programs that compute successively longer prefixes of one seed's updates; the last one is all of it."""
    learner, batch = jax.tree.map(lambda leaf: leaf[0], (state.learner, batch_to_learn(state, played)))
    minibatches = jnp.arange(setup.train.envs).reshape(setup.algorithm.minibatches, -1)

    def targets(learner: LearnerState, batch: EpisodeBatch) -> Any:
        return update.frozen_targets(setup, learner, batch)

    def forward(learner: LearnerState, batch: EpisodeBatch) -> Any:
        td_targets = targets(learner, batch)

        def loss(rows: jax.Array) -> Any:
            own = None if td_targets is None else td_targets[rows]
            return update.loss(setup, learner.model, update.take_rows(batch, rows), own)[0]

        return jax.lax.map(loss, jnp.tile(minibatches, (setup.algorithm.epochs, 1)))

    def all_updates(learner: LearnerState, batch: EpisodeBatch) -> Any:
        return update.learn(setup, learner, batch, jnp.zeros(()), jax.random.key(0))

    programs = {"targets": targets, "forward": forward, "backward": all_updates}
    return {name: partial(devices.jit(program), learner, batch) for name, program in programs.items()}
