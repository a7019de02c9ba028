"""Recording: episodes of a policy as a dataset, played in chunks so that memory does not grow with their number."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from refil.datasets import Dataset
from refil.nn.utilities import team_policy, team_state
from refil.rollout import Policy, observe_batch, random_policy, rollout, rollout_random_tasks, select
from refil.training import devices, memory
from refil.types import Env

CHUNK = 32  # episodes that are played at once


def record(
    env: Env,
    episodes: int,
    metadata: dict[str, Any],
    *,
    model: Any = None,
    epsilon: float = 0.0,
    task: int | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Dataset:
    """Play episodes of random tasks, or of one; with random actions if there is no model.

    The first episodes are the same whatever the number of episodes.
    """
    memory.check_episodes(env, CHUNK, "the size of the environment", recorded=True)
    models = None if model is None else jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], model)
    play = devices.program(env, partial(_play, env, task))
    chunks = []
    for number in range(-(-episodes // CHUNK)):
        progress(number * CHUNK)
        key = jax.random.fold_in(jax.random.key(seed), number)
        chunks.append(_trim(jax.device_get(play(models, jnp.float32(epsilon), key))))
    joined = _join(chunks, episodes)
    return Dataset(**joined, metadata=metadata)


def _play(env: Env, task: int | None, models: Any, epsilon: Array, key: Key[Array, ""]) -> dict[str, Array]:
    policy: Policy = random_policy if models is None else team_policy(models, epsilon[None])
    start = None if models is None else team_state(models, CHUNK, env.spec.agents)
    if task is None:
        played = rollout_random_tasks(env, policy, start, CHUNK, key[None])
    else:
        played = rollout(env, policy, start, _all(task), key[None])
    reached = jnp.pad(played.valid, [(0, 0), (0, 0), (1, 0)], constant_values=True)[0]  # a timestep more than actions
    states, actions = jax.tree.map(lambda leaf: leaf[0], (played.states, played.actions))
    last_action = jnp.pad(actions, [(0, 0), (1, 0), (0, 0)], constant_values=-1)
    obs = observe_batch(env, states, last_action, jnp.zeros(reached.shape, bool))
    seen = {name: getattr(obs, name) for name in ("entities", "present", "alive", "visible", "available")}
    seen = {name: select(reached, leaf, jnp.zeros_like(leaf)) for name, leaf in seen.items()}
    steps = {name: getattr(played, name)[0] for name in ("rewards", "terminated", "valid", "won", "task")}
    return seen | {"actions": actions} | steps


def _all(task: int) -> Int[Array, "1 chunk"]:
    return jnp.full((1, CHUNK), task)


def _trim(chunk: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Cut off the timesteps that no episode reached."""
    length = int(chunk["valid"].sum(axis=-1).max())
    extra = {"entities", "present", "alive", "visible", "available"}
    whole = {"won", "task"}
    return {name: np.asarray(array if name in whole else array[:, : length + (name in extra)]) for name, array in chunk.items()}


def _join(chunks: list[dict[str, np.ndarray]], episodes: int) -> dict[str, np.ndarray]:
    joined = {}
    for name in chunks[0]:
        arrays = [chunk[name] for chunk in chunks]
        if arrays[0].ndim > 1:
            longest = max(array.shape[1] for array in arrays)
            arrays = [np.pad(a, [(0, 0), (0, longest - a.shape[1])] + [(0, 0)] * (a.ndim - 2)) for a in arrays]
        joined[name] = np.concatenate(arrays)[:episodes]
    return joined
