"""Parts of all adapters: environments by name, observations of single agents, and episodes stepped with NumPy arrays."""

import secrets
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from refil.environment import Environment, EnvState, StepOutcome, make
from refil.errors import RefilError
from refil.types import Observation


class TimeStep(eqx.Module):
    """One timestep: the observation, what each agent sees as a vector, and who is in the team and alive."""

    obs: Observation
    vectors: Float[Array, "*batch agents size"]
    active: Bool[Array, "*batch agents"]


def environment(env: str | Environment, options: dict[str, Any]) -> Environment:
    """Return the environment of a name and its options, or the given one."""
    if isinstance(env, str):
        return make(env, **options)
    if options:
        raise RefilError(f"options {', '.join(options)} need the name of an environment; {env.name} is built already")
    return env


def active_agents(obs: Observation) -> Bool[Array, "*batch agents"]:
    """Return whether each agent is in the team and alive."""
    assert obs.alive is not None
    return obs.agent_present & obs.alive[..., : obs.visible.shape[-2]]


def vector_size(env: Environment) -> int:
    """Return the length of what each agent sees as a vector."""
    return (1 + env.spec.entities) * env.spec.features


def agent_vectors(obs: Observation) -> Float[Array, "*batch agents size"]:
    """Return the features of each agent, followed by those of all entities: zeros for unseen ones and for inactive agents."""
    own = obs.entities[..., : obs.visible.shape[-2], :]
    seen = jnp.where(obs.visible[..., None], obs.entities[..., None, :, :], 0.0)
    vectors = jnp.concatenate([own, seen.reshape(*own.shape[:-1], -1)], axis=-1)
    return jnp.where(active_agents(obs)[..., None], vectors, 0.0)


def replace_unavailable(
    actions: Int[Array, "*batch agents"], available: Bool[Array, "*batch agents actions"]
) -> Int[Array, "*batch agents"]:
    """Replace actions that agents cannot choose, also numbers that are no action, by their first available one."""
    chosen = jnp.clip(actions, 0, available.shape[-1] - 1)
    is_available = jnp.take_along_axis(available, chosen[..., None], axis=-1)[..., 0] & (chosen == actions)
    return jnp.where(is_available, actions, jnp.argmax(available, axis=-1))


def _time_step(obs: Observation) -> TimeStep:
    return TimeStep(obs, agent_vectors(obs), active_agents(obs))


def start(env: Environment, key: PRNGKeyArray, task: Int[Array, ""] | int | None = None) -> tuple[EnvState, TimeStep]:
    """Start an episode."""
    state, obs = env.reset(jax.random.fold_in(key, 0), task)
    return state, _time_step(obs)


def advance(
    env: Environment, state: EnvState, actions: Int[Array, " agents"], key: PRNGKeyArray
) -> tuple[EnvState, TimeStep, StepOutcome]:
    """Take one step of the episode that started with this key."""
    state, obs, outcome = env.step(state, actions, jax.random.fold_in(key, state.time + 1))
    return state, _time_step(obs), outcome


_start = partial(jax.jit, static_argnums=0)(start)
_advance = partial(jax.jit, static_argnums=0)(advance)


class Result(NamedTuple):
    """The result of a step as Python values."""

    reward: float
    terminated: bool
    truncated: bool
    won: bool


class Episodes:
    """One environment after another, stepped from outside JAX; everything that it returns is a NumPy array.

    All random keys follow from a seed, so the same seed and actions give the same episodes.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.seed(None)

    def seed(self, seed: int | None) -> None:
        """Set the seed of all following episodes; None chooses one."""
        self._seed, self._count = secrets.randbits(31) if seed is None else seed, 0

    def reset(self, task: str | int | None = None) -> TimeStep:
        """Start the next episode."""
        names = self.env.task_names
        if isinstance(task, str) and task in names:
            task = names.index(task)
        self._key: Key[Array, ""] = jax.random.fold_in(jax.random.key(self._seed), self._count)
        self._count += 1
        if isinstance(task, str):
            self.env.reset(self._key, task)  # raises: there is no such task
        self._state, timestep = _start(self.env, self._key, task)
        self.timestep: TimeStep = jax.device_get(timestep)
        return self.timestep

    def step(self, actions: np.ndarray) -> Result:
        """Take one step, after which `timestep` is the new one; raise if an agent cannot choose its action."""
        self._check(actions)
        self._state, timestep, outcome = _advance(self.env, self._state, jnp.asarray(actions, jnp.int32), self._key)
        self.timestep, outcome = jax.device_get((timestep, outcome))
        return Result(float(outcome.reward), *map(bool, (outcome.terminated, outcome.truncated, outcome.won)))

    def _check(self, actions: np.ndarray) -> None:
        available, names = np.asarray(self.timestep.obs.available), self.env.action_names
        for agent, (action, allowed) in enumerate(zip(actions, available, strict=True)):
            if not (0 <= action < len(allowed) and allowed[action]):
                choices = ", ".join(f"{number} ({names[number]})" for number in np.flatnonzero(allowed))
                raise RefilError(f"agent {agent} cannot choose action {action} now; available: {choices}")
