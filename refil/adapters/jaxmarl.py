"""JaxMARL: refil's environments as `MultiAgentEnv`, for JaxMARL's own training scripts."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.adapters import episodes
from refil.environment import Environment, EnvState
from refil.errors import needs_extra
from refil.types import Observation

with needs_extra("refil.adapters.jaxmarl", "jaxmarl", "jaxmarl"):
    from jaxmarl.environments import spaces  # pyright: ignore[reportMissingImports] (its pins clash with ours)
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv  # pyright: ignore[reportMissingImports]

Timestep = tuple[dict[str, Array], "State"]


class State(eqx.Module):
    """The state of an episode, with the fields that JaxMARL expects."""

    env: EnvState
    available: Bool[Array, "agents actions"]
    done: Bool[Array, ""]
    step: Int[Array, ""]


class JaxMarlEnv(MultiAgentEnv):
    """An environment as pure functions in JaxMARL's form: dictionaries with an entry per agent slot.

    Teams are padded to the largest one. Dead and absent agents are done and see zeros; in battles they have only no-op.
    Unavailable actions are replaced by the first available one. Every agent gets the reward of the team.
    """

    def __init__(self, env: str | Environment, **options: Any) -> None:
        self.environment = episodes.environment(env, options)
        spec = self.environment.spec
        super().__init__(num_agents=spec.agents)
        size = episodes.vector_size(self.environment)
        self.observation_spaces = {agent: spaces.Box(-jnp.inf, jnp.inf, (size,)) for agent in self.agents}
        self.action_spaces = {agent: spaces.Discrete(spec.actions) for agent in self.agents}

    @property
    def name(self) -> str:
        """The environment's name. JaxMARL's CTRolloutManager reads action masks and states only where it contains "smax"."""
        return f"{self.environment.name} (refil, with SMAX's interface)"

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """All agents, as a single class."""
        return {"agent": list(self.agents)}

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: PRNGKeyArray) -> Timestep:
        """Start an episode of a random task."""
        env_state, obs = self.environment.reset(key)
        state = State(env_state, obs.available, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        return self._observations(obs), state

    @partial(jax.jit, static_argnums=0)
    def step_env(self, key: PRNGKeyArray, state: State, actions: dict[str, Array]) -> tuple[Any, ...]:
        """Take one step, without starting another episode at the end."""
        chosen = jnp.stack([jnp.asarray(actions[agent], jnp.int32).reshape(()) for agent in self.agents])
        chosen = episodes.replace_unavailable(chosen, state.available)
        after, obs, outcome = self.environment.step(state.env, chosen, key)
        state = State(after, obs.available, outcome.done, state.step + 1)
        dones = self._by_agent(outcome.done | ~episodes.active_agents(obs)) | {"__all__": outcome.done}
        rewards = dict.fromkeys(self.agents, outcome.reward)
        return self._observations(obs), state, rewards, dones, {"won": jnp.full((self.num_agents,), outcome.won)}

    def get_obs(self, state: State) -> dict[str, Array]:
        """Return what each agent sees, and the features of all entities as "world_state"."""
        return self._observations(self.environment.observe(state.env))

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: State) -> dict[str, Bool[Array, " actions"]]:
        """Return which actions each agent can choose."""
        return self._by_agent(state.available)

    def _observations(self, obs: Observation) -> dict[str, Array]:
        return self._by_agent(episodes.agent_vectors(obs)) | {"world_state": obs.entities.reshape(-1)}

    def _by_agent(self, values: Array) -> dict[str, Array]:
        return {agent: values[number] for number, agent in enumerate(self.agents)}
