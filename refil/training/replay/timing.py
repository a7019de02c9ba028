"""Prefixes of an update from the replay buffer, for `refil bench --parts`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from refil.training import devices
from refil.training.replay import buffer, update
from refil.training.replay.loop import TrainState
from refil.training.replay.update import LearnerState
from refil.training.setup import Setup


def prefixes(setup: Setup, state: TrainState, played: Any) -> dict[str, Callable[[], Any]]:
    """Return compiled programs that compute successively longer prefixes of one seed's update, without packing."""
    replay, learner = jax.tree.map(lambda leaf: leaf[0], (state.replay, state.learner))
    key = jax.random.key(0)
    slots = buffer.sample_indices(replay, setup.algorithm.batch, key)
    trajectories = jax.jit(buffer.take_episodes)(replay, slots)

    def rebuild(learner: LearnerState) -> Any:
        return buffer.rebuild_batch(setup.env, trajectories)

    def forward(learner: LearnerState) -> Any:
        return setup.method.loss(*update.cast(setup, learner.model, learner.target, rebuild(learner)), key)[0]

    def backward(learner: LearnerState) -> Any:
        return update.gradient(setup, learner, rebuild(learner), key)[0]

    def optimizer(learner: LearnerState) -> Any:
        return update.apply_gradient(setup, learner, backward(learner))

    programs = {"rebuild": rebuild, "forward": forward, "backward": backward, "optimizer": optimizer}
    return {name: partial(devices.jit(program), learner) for name, program in programs.items()}
