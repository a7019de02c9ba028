"""Gymnasium: many episodes of one environment as a `VectorEnv`, for a learner that commands the whole team."""

import secrets
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from refil.adapters import episodes
from refil.environment import Environment, EnvState, StepOutcome
from refil.errors import RefilError, needs_extra
from refil.rollout import select
from refil.types import Observation

with needs_extra("refil.adapters.gymnasium", "gymnasium", "gymnasium"):
    from gymnasium import spaces, vector
    from gymnasium.vector.utils import batch_space

Infos = dict[str, Any]
Arrays = dict[str, np.ndarray]


class VectorEnv(vector.VectorEnv[Arrays, np.ndarray, np.ndarray]):
    """Environments that run as one compiled program; an action is one number per agent slot.

    An environment whose episode is over starts the next one in the same step (`AutoresetMode.SAME_STEP`): the last observation
    is in `infos["final_obs"]`. Actions that agents cannot choose, such as those of dead and absent agents, are replaced by the
    first one that they can.
    """

    def __init__(self, env: str | Environment, num_envs: int = 1, **options: Any) -> None:
        if num_envs < 1:
            raise RefilError(f"num_envs must be 1 or more, not {num_envs}")
        self.environment = episodes.environment(env, options)
        self.num_envs = num_envs
        self.metadata = {"name": f"refil_{self.environment.name}", "autoreset_mode": vector.AutoresetMode.SAME_STEP}
        self.single_observation_space = _observation_space(self.environment)
        self.single_action_space = spaces.MultiDiscrete([self.environment.spec.actions] * self.environment.spec.agents)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._state: EnvState | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, Infos]:
        """Start an episode in every environment; a seed determines all following episodes."""
        super().reset(seed=seed)
        if seed is not None or self._state is None:
            self._key = jax.random.key(secrets.randbits(31) if seed is None else seed)
        self._key, key = jax.random.split(self._key)
        self._state, obs = _reset(self.environment, jax.random.split(key, self.num_envs))
        self._available = obs.available
        return _arrays(obs), {}

    def step(self, actions: Any) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Take one step in every environment."""
        if self._state is None:
            raise RefilError("call reset before step")
        self._key, key = jax.random.split(self._key)
        joint = episodes.replace_unavailable(jnp.asarray(np.asarray(actions), jnp.int32), self._available)
        self._state, obs, last, outcome = _step(self.environment, self._state, joint, jax.random.split(key, self.num_envs))
        self._available = obs.available
        result = jax.device_get((outcome.reward, outcome.terminated, outcome.truncated, outcome.won))
        rewards, terminated, truncated, won = map(np.asarray, result)
        infos: Infos = {"won": won, "_won": np.ones(self.num_envs, bool)}
        if (over := terminated | truncated).any():
            infos |= _final(_arrays(last), over, won)
        return _arrays(obs), rewards, terminated, truncated, infos


def _observation_space(env: Environment) -> spaces.Space:
    spec = env.spec
    return spaces.Dict(
        {
            "entities": spaces.Box(-np.inf, np.inf, (spec.entities, spec.features), np.float32),
            "present": spaces.MultiBinary(spec.entities),
            "alive": spaces.MultiBinary(spec.entities),
            "action_mask": spaces.MultiBinary((spec.agents, spec.actions)),
        }
    )


def _arrays(obs: Observation) -> Arrays:
    entities, *masks = jax.device_get((obs.entities, obs.present, obs.alive, obs.available))
    present, alive, available = (np.asarray(mask).astype(np.int8) for mask in masks)
    return {"entities": np.asarray(entities), "present": present, "alive": alive, "action_mask": available}


def _final(last: Arrays, over: np.ndarray, won: np.ndarray) -> Infos:
    final = np.full(len(over), None, object)
    for env in np.flatnonzero(over):
        final[env] = {name: array[env] for name, array in last.items()}
    return {"final_obs": final, "_final_obs": over, "final_info": {"won": won & over, "_won": over}, "_final_info": over}


@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, keys: Key[Array, " envs"]) -> tuple[EnvState, Observation]:
    return jax.vmap(env.reset)(keys)


@partial(jax.jit, static_argnums=0)
def _step(
    env: Environment, state: EnvState, actions: Int[Array, "envs agents"], keys: Key[Array, " envs"]
) -> tuple[EnvState, Observation, Observation, StepOutcome]:
    """Return the states and observations after the step and after resets, the last observations, and the outcomes."""
    step_keys, reset_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    after, last, outcome = jax.vmap(env.step)(state, actions, step_keys)
    over = outcome.terminated | outcome.truncated

    def restart(done: Bool[Array, " envs"]) -> tuple[EnvState, Observation]:
        return jax.tree.map(partial(select, done), jax.vmap(env.reset)(reset_keys), (after, last))

    state, obs = jax.lax.cond(over.any(), restart, lambda _: (after, last), over)
    return state, obs, last, outcome
