"""A utility over all timesteps of a batch, while learning.

Recurrent utilities work on arrays `[views, time, rows, agents, ...]`, where a row of time holds one episode, or several one
after the other.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from refil.nn.gru import scan_time
from refil.nn.kernels import overlap
from refil.nn.packed_rows import from_rows, to_rows
from refil.nn.utilities import check_shape
from refil.types import EpisodeBatch, FusedUtility, Observation, RecurrentUtility, Utility

Barrier = Callable[[PyTree], PyTree]  # identity that makes its result wait until the recurrent scan can start


def unroll(
    utility: Utility,
    batch: EpisodeBatch,
    views: Bool[Array, "views batch timesteps agents entities"] | None = None,
    key: PRNGKeyArray | None = None,
    features: bool = False,
) -> Any:
    """Return the Q-values of all timesteps, `[batch, time + 1, agents, actions]`.

    With `views` the result has them as its first axis, and each view has a state of its own; without, agents see what is
    visible. `key` is for networks that sample. With `features` the result is the pair of Q-values and features.
    """
    chosen = batch.observations.visible[None] if views is None else views
    q, found, _ = unroll_overlapped(utility, batch, chosen, key, lambda barrier: None)
    result = (q, found) if features else q
    return jax.tree.map(lambda leaf: leaf[0], result) if views is None else result


def unroll_overlapped(
    utility: Utility,
    batch: EpisodeBatch,
    views: Bool[Array, "views batch timesteps agents entities"],
    key: PRNGKeyArray | None,
    overlapped: Callable[[Barrier], PyTree],
) -> tuple[Float[Array, "views batch timesteps agents actions"], PyTree, PyTree]:
    """Return Q-values, features, and the result of other work that overlaps with the recurrent scan.

    `overlapped(barrier)` does that work; what it passes through the barrier waits until the scan can start.
    """
    obs = batch.observations if key is None else replace(batch.observations, key=timestep_keys(batch, key))
    if not isinstance(utility, RecurrentUtility):
        features, other = utility.encode(obs, views), overlapped(lambda values: values)
        return _q_values(utility, features, obs), features, other
    if batch.pack_index is None:  # transpose observations, not what is computed from them: they are smaller
        obs, views = jax.tree.map(partial(jnp.swapaxes, axis1=0, axis2=1), obs), jnp.swapaxes(views, 1, 2)
        to_time, from_time = (lambda leaf: leaf), (lambda leaf: leaf)
    else:
        to_time, from_time = partial(to_rows, batch.pack_index), partial(from_rows, batch.pack_index)
    assert obs.is_first is not None
    inputs, is_first = jax.tree.map(to_time, (utility.encode(obs, views), obs.is_first[None]))
    initial = utility.initial_state(len(views), is_first.shape[2], views.shape[-2])
    features, other = _recur(utility, inputs, is_first, (initial, batch.start), overlapped)
    features = jax.tree.map(from_time, features)
    q = _q_values(utility, features, obs)
    if batch.pack_index is None:
        q, features = jax.tree.map(partial(jnp.swapaxes, axis1=1, axis2=2), (q, features))
    return q, features, other


def _q_values(utility: Utility, features: PyTree, obs: Observation) -> Float[Array, "views *batch agents actions"]:
    q = utility.q_values(features, obs)
    check_shape(utility, q, (len(jax.tree.leaves(features)[0]), *obs.available.shape))
    return jnp.where(obs.agent_present[..., None], q.astype(jnp.float32), 0.0)


def _recur(
    utility: RecurrentUtility,
    inputs: PyTree,
    is_first: Bool[Array, "1 time rows"],
    states: tuple[PyTree, PyTree],
    overlapped: Callable[[Barrier], PyTree],
) -> tuple[PyTree, PyTree]:
    """Return the features of all timesteps, and the overlapped work: with a fused kernel if there is one."""
    if isinstance(utility, FusedUtility):
        inputs = utility.project_inputs(inputs)
        other = overlapped(partial(overlap.barrier, inputs))
        return overlap.backward_first(utility.recur_all(inputs, is_first[..., None, None], states[1]), other)
    return _scan(utility, inputs, is_first, *states), overlapped(lambda values: values)


def _scan(utility: RecurrentUtility, inputs: PyTree, is_first: Array, initial: PyTree, start: PyTree) -> PyTree:
    """Apply `recur` timestep by timestep; the gradient of the weights is summed over time in float32."""
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), utility)

    def timestep(state: PyTree, now: tuple[PyTree, Array]) -> tuple[PyTree, PyTree]:
        inputs, is_first = now
        working = jax.tree.map(lambda leaf, given: leaf.astype(given.dtype), exact, utility)
        reset = jax.tree.map(lambda old, new: jnp.where(is_first[..., *(None,) * (old.ndim - 2)], new, old), state, initial)
        after, features = working.recur(reset, inputs)
        return jax.tree.map(lambda new, old: new.astype(old.dtype), after, state), features

    return scan_time(timestep, initial if start is None else start, (inputs, is_first))


def timestep_keys(batch: EpisodeBatch, key: PRNGKeyArray) -> Key[Array, "batch timesteps"]:
    """Return a key per timestep that depends on the episode and its timestep, not on where the batch stores it."""
    is_first = batch.observations.is_first
    assert is_first is not None
    here = jnp.arange(is_first.size).reshape(is_first.shape)
    start = jax.lax.cummax(jnp.where(is_first, here, 0).reshape(-1)).reshape(is_first.shape)
    fold = jax.vmap(jax.vmap(lambda *numbers: jax.random.fold_in(jax.random.fold_in(key, numbers[0]), numbers[1])))
    return fold(batch.episode_id, here - start)
