"""Episodes that compiled programs cannot play, such as battles of a real game: a Python loop around compiled actions.

The trajectories are those of `refil.rollout`: learning and evaluation do not notice the difference. An environment is hosted
if it has the method `hosted_rollout(env, policy, policy_state, tasks, keys)`, which calls `rollout` here; the first argument is
the environment with all its wrappers. Functions that play in it run as plain Python (`refil.training.devices.program`).
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree, UInt32

from refil.errors import RefilError
from refil.rollout import Policy, PolicyState, observe_batch, step_keys
from refil.types import Env, Outcome, Trajectory

ATTEMPTS = 3  # how often an episode is tried whose game fails
LOG = logging.getLogger(__name__)
Lost = dict[int, Exception]  # episodes that cannot continue, by their number, and why
_listeners: list[Callable[[str], None]] = []


class LostError(RefilError):
    """An episode cannot be played, although it was tried several times."""


@runtime_checkable
class Host(Protocol):
    """Plays up to `capacity` episodes at once; states are pytrees of NumPy arrays with an axis of episodes.

    If there are more, the numbers of those that are selected or running lie within a block of `capacity` numbers. An episode
    whose game fails is lost: `step` says so once, and the episode is not running from then on.
    """

    capacity: int

    def reset(
        self,
        tasks: Int[np.ndarray, " episodes"],
        keys: UInt32[np.ndarray, "episodes words"],
        selected: Bool[np.ndarray, " episodes"],
    ) -> PyTree:
        """Start the selected episodes and return the first states of all."""
        ...

    def step(
        self,
        states: PyTree,
        actions: Int[np.ndarray, "episodes agents"],
        keys: UInt32[np.ndarray, "episodes words"],
        running: Bool[np.ndarray, " episodes"],
    ) -> tuple[PyTree, Outcome, Lost]:
        """Make one step in the running episodes; the others may return anything of the same shape."""
        ...


@contextmanager
def reporting_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell a function what hosts are doing, as long as the context is open: launching games, or how many episodes are over."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(text: str) -> None:
    """Say what a host is doing."""
    for listener in _listeners:
        listener(text)


class _EndedCounter:
    """How many episodes are over."""

    def __init__(self, total: int) -> None:
        self.over, self.total = 0, total

    def add(self, over: int) -> None:
        """Count and report episodes that have just ended."""
        self.over += over
        if over:
            report(f"playing: {self.over:,} of {self.total:,} episodes are over")


class _Inputs(NamedTuple):
    """Inputs of an episode; leaves have the axes [seeds, envs, ...]."""

    policy_state: PolicyState
    tasks: Int[Array, "seeds envs"]
    keys: Key[Array, "seeds envs"]


def rollout(
    host: Host,
    env: Env,
    policy: Policy,
    policy_state: PolicyState,
    tasks: Int[Array, "seeds envs"],
    keys: Key[Array, "seeds envs"],
) -> Trajectory:
    """Play one episode of each task, in batches if there are more than the host can play at once."""
    seeds, envs = tasks.shape
    size = min(envs, max(1, host.capacity // seeds))
    inputs, batches, count = _Inputs(policy_state, tasks, keys), [], _EndedCounter(tasks.size)
    for start in range(0, envs, size):
        part = jax.tree.map(lambda leaf, start=start: leaf[:, start : start + size], inputs)
        play = partial(_play, host, env, policy, part, count)
        batches.append(_play_batch(play, part.tasks.shape, host.capacity))
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves, axis=1)), *batches)


def _play_batch(play: Callable[..., tuple[Trajectory, Lost]], shape: tuple[int, ...], capacity: int) -> Trajectory:
    """Play episodes at once, or in groups if a single one of every seed is too many."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    groups = [numbers // capacity == group for group in range(-(-numbers.size // capacity))]
    found = _play_group(play, groups[0])
    for group in groups[1:]:
        found = jax.tree.map(partial(_select, group), _play_group(play, group), found)
    return found


def _play_group(play: Callable[..., tuple[Trajectory, Lost]], group: Bool[np.ndarray, "seeds envs"]) -> Trajectory:
    """Play episodes at once; those that are lost are played again from the start."""
    found, lost = play(group)
    for _ in range(ATTEMPTS - 1):
        if not lost:
            break
        again = np.isin(np.arange(group.size), list(lost)).reshape(group.shape)
        for error in lost.values():
            LOG.warning("An episode was lost and is played again: %s", error)
        played, lost = play(again)
        found = jax.tree.map(partial(_select, again), played, found)
    if lost:
        raise LostError(f"an episode was lost {ATTEMPTS} times in a row, the last time because {next(iter(lost.values()))}")
    return found


def _play(
    host: Host, env: Env, policy: Policy, inputs: _Inputs, count: _EndedCounter, selected: Bool[np.ndarray, "seeds envs"]
) -> tuple[Trajectory, Lost]:
    """Play the selected episodes to their ends, and return also which ones were lost."""
    shape, spec = selected.shape, env.spec
    tasks, words = np.asarray(inputs.tasks), np.asarray(jax.random.key_data(inputs.keys))
    states = host.reset(tasks.reshape(-1), words.reshape(tasks.size, -1), selected.reshape(-1))
    names = tuple(getattr(env, "metric_names", ()))
    record, running, lost = _Record.empty(shape, spec.horizon, spec.agents, states, names), selected.copy(), {}
    record.add_states(0, states, running)
    policy_state, last_action = inputs.policy_state, jnp.full((*shape, spec.agents), -1)
    for time in range(spec.horizon):
        if not running.any():
            break
        seen = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), states)
        memory = policy_state, seen, last_action, jnp.asarray(time)
        policy_state, last_action, env_words = _act(env, policy, memory, inputs.keys)
        actions = np.asarray(last_action)
        flat = actions.reshape(tasks.size, -1), np.asarray(env_words).reshape(tasks.size, -1), running.reshape(-1)
        after, outcome, newly_lost = host.step(states, *flat)
        outcome = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(shape), outcome)
        record.add_step(time, actions, outcome, running)
        record.add_states(time + 1, after, running)
        lost |= newly_lost
        before, running = running, running & ~outcome.terminated
        running.reshape(-1)[list(newly_lost)] = False
        count.add(int(before.sum() - running.sum()) - len(newly_lost))
        states = after
    count.add(int(running.sum()))
    return record.trajectory(tasks, words), lost


@eqx.filter_jit
def _act(
    env: Env, policy: Policy, memory: tuple[PolicyState, PyTree, Array, Array], keys: Key[Array, "seeds envs"]
) -> tuple[PolicyState, Int[Array, "seeds envs agents"], UInt32[Array, "seeds envs words"]]:
    """Observe, choose actions, and return the environment's keys: as `refil.rollout.step_envs` does."""
    policy_state, states, last_action, time = memory
    policy_keys, env_keys = jax.vmap(jax.vmap(lambda key: step_keys(key, time)))(keys)
    obs = observe_batch(env, states, last_action, jnp.broadcast_to(time == 0, keys.shape))
    policy_state, actions = policy(policy_state, obs, policy_keys)
    return policy_state, actions, jax.random.key_data(env_keys)


class _Record(NamedTuple):
    """A trajectory that is being recorded; timesteps that are not reached stay zero."""

    states: PyTree
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    valid: np.ndarray
    won: np.ndarray
    metrics: dict[str, np.ndarray]

    @classmethod
    def empty(cls, shape: tuple[int, ...], horizon: int, agents: int, states: PyTree, metrics: tuple[str, ...]) -> "_Record":
        """Return the record before the first step."""

        def zeros(leaf: np.ndarray) -> np.ndarray:
            return np.zeros((*shape, horizon + 1, *leaf.shape[1:]), leaf.dtype)

        rewards, terminated, valid = (np.zeros((*shape, horizon), dtype) for dtype in (np.float32, bool, bool))
        actions, won = np.zeros((*shape, horizon, agents), np.int32), np.zeros(shape, bool)
        totals = {name: np.zeros(shape, np.float32) for name in metrics}
        return cls(jax.tree.map(zeros, states), actions, rewards, terminated, valid, won, totals)

    def add_states(self, time: int, states: PyTree, running: np.ndarray) -> None:
        """Record the states of a timestep in the running episodes."""

        def write(rows: np.ndarray, leaf: np.ndarray) -> None:
            rows[running, time] = np.asarray(leaf).reshape(*running.shape, *leaf.shape[1:])[running]

        jax.tree.map(write, self.states, states)

    def add_step(self, time: int, actions: np.ndarray, outcome: Outcome, running: np.ndarray) -> None:
        """Record a step of the running episodes."""
        self.actions[running, time] = actions[running]
        self.rewards[running, time] = outcome.reward[running]
        self.terminated[running, time] = outcome.terminated[running]
        self.valid[running, time] = True
        self.won[running] |= np.asarray(outcome.won)[running]
        for name, total in self.metrics.items():
            total[running] += np.asarray(outcome.metrics[name])[running]

    def trajectory(self, tasks: np.ndarray, words: np.ndarray) -> Trajectory:
        """Return the episodes as arrays of JAX."""
        steps = self.states, self.actions, self.rewards, self.terminated, self.valid, self.won
        found = *steps, tasks.astype(np.int32), words, self.metrics
        return Trajectory(*jax.tree.map(jnp.asarray, found))


def _select(again: np.ndarray, new: Array, old: Array) -> Array:
    return jnp.where(again.reshape(again.shape + (1,) * (new.ndim - again.ndim)), new, old)
