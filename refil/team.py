"""A trained team: act with it, look at its Q-values and attention, watch it play."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from refil.errors import RefilError, list_choices
from refil.nn import inspect
from refil.nn.utilities import initial_state, step, team_policy, team_state
from refil.rollout import epsilon_greedy, rollout, rollout_random_tasks, select
from refil.training import devices, memory
from refil.types import Env, Observation
from refil.viewer.replay import Replay, replays


class TeamState(eqx.Module):
    """The memory of a team between timesteps: its hidden state, the last actions, and random keys."""

    hidden: PyTree
    last_action: Int[Array, "*batch agents"]
    is_first: Bool[Array, "*batch"]
    key: Key[Array, "*batch"]


@dataclass(frozen=True, eq=False)
class Team:
    """One trained model and the environment it was trained in; every method also works under `jax.jit` and `jax.vmap`.

    Observations may have any leading batch axes. Those of `refil.make` say when an episode starts, and the team then forgets;
    with observations of other sources, call `initial_state` at the start of every episode.
    """

    model: Any
    env: Env
    name: str
    seed: int = 0

    def __repr__(self) -> str:
        return f"Team({self.name!r}, seed={self.seed}, utility={type(self.model.utility).__name__})"

    def initial_state(self, *batch: int, seed: int = 0) -> TeamState:
        """Return the state before the first timestep of `batch` episodes, or of one episode without arguments."""
        agents = self.env.spec.agents
        return TeamState(
            hidden=initial_state(self.model.utility, *batch, agents),
            last_action=jnp.full((*batch, agents), -1),
            is_first=jnp.ones(batch, bool),
            key=jax.random.split(jax.random.key(seed), batch) if batch else jax.random.key(seed),
        )

    def act(self, obs: Observation, state: TeamState, epsilon: float = 0.0) -> tuple[Int[Array, "*batch agents"], TeamState]:
        """Choose actions, the best ones unless epsilon says otherwise; return them and the next state."""
        state = self._started(obs, state)
        hidden, q = step(self.model.utility, state.hidden, self._complete(obs, state))

        def choose(q: Array, available: Array, key: Array) -> Array:
            return epsilon_greedy(q, available, jnp.asarray(epsilon), jax.random.fold_in(key, 0))

        def next_key(key: Array) -> Array:
            return jax.random.fold_in(key, 1)

        for _ in range(q.ndim - 2):
            choose, next_key = jax.vmap(choose), jax.vmap(next_key)
        actions = choose(q, obs.available, state.key)
        return actions, TeamState(hidden, actions, jnp.zeros_like(state.is_first), next_key(state.key))

    def q_values(self, obs: Observation, state: TeamState) -> Float[Array, "*batch agents actions"]:
        """Return the Q-values of all actions, available or not; the state does not change."""
        state = self._started(obs, state)
        return step(self.model.utility, state.hidden, self._complete(obs, state))[1]

    def attention(self, obs: Observation, state: TeamState) -> Float[Array, "*batch heads agents entities"]:
        """Return how strongly each head of each agent attends to every entity."""
        utility = self.model.utility
        if not inspect.has_attention(utility):
            raise RefilError(f"{type(utility).__name__} of {self.name} has no entity attention")
        return inspect.attention_weights(utility, self._complete(obs, self._started(obs, state)))

    def play(self, episodes: int = 1, task: str | None = None, seed: int = 0) -> list[Replay]:
        """Play episodes greedily and return them as replays, which a notebook shows as a page."""
        self.check_play(episodes, task)
        models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], self.model)
        keys = jax.random.split(jax.random.key(seed), 1)

        def run(models: Any, keys: Array) -> Any:
            policy, start = team_policy(models, jnp.zeros(1)), team_state(models, episodes, self.env.spec.agents)
            if task is None:
                return rollout_random_tasks(self.env, policy, start, episodes, keys)
            return rollout(self.env, policy, start, jnp.full((1, episodes), self.env.task_names.index(task)), keys)

        trajectories = jax.tree.map(lambda leaf: np.asarray(leaf[0]), devices.run(self.env, run, models, keys, quickly=True))
        return replays(self.env, trajectories, self.model)

    def check_play(self, episodes: int = 1, task: str | None = None) -> None:
        """Raise if these episodes cannot be played and shown, before anything is compiled."""
        if not hasattr(self.env, "scene"):
            raise RefilError(f"{self.name} cannot be shown: its environment has no scene(state)")
        if task is not None and task not in self.env.task_names:
            raise RefilError(f"unknown task {task!r}; {list_choices(task, self.env.task_names)}")
        memory.check_count(episodes, "episodes")
        memory.check_episodes(self.env, episodes, "episodes", recorded=True)

    def _started(self, obs: Observation, state: TeamState) -> TeamState:
        """Reset the state where an observation says that its episode starts."""
        is_first = obs.is_first
        if is_first is None:
            return state
        fresh = self.initial_state(*is_first.shape)
        return replace(
            state,
            hidden=jax.tree.map(partial(select, is_first), fresh.hidden, state.hidden),
            last_action=select(is_first, fresh.last_action, state.last_action),
            is_first=state.is_first | is_first,
        )

    def _complete(self, obs: Observation, state: TeamState) -> Observation:
        return replace(obs, last_action=state.last_action, is_first=state.is_first, key=state.key)
