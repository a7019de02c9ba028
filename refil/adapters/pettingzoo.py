"""PettingZoo: refil's environments as `ParallelEnv`, with action masks and teams that change from episode to episode."""

from functools import cache
from typing import Any

import numpy as np

from refil.adapters import episodes
from refil.environment import Environment
from refil.errors import RefilError, needs_extra

with needs_extra("refil.adapters.pettingzoo", "pettingzoo", "pettingzoo", "gymnasium"):
    import pettingzoo
    from gymnasium import spaces

AgentObservation = dict[str, np.ndarray]
Results = tuple[
    dict[str, AgentObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]  # observations, rewards, terminations, truncations, infos


class ParallelEnv(pettingzoo.ParallelEnv[str, AgentObservation, int]):
    """An environment in which `agents` are the members of this episode's team that are alive.

    `possible_agents` has a name for every slot of the largest team. Agents that die terminate and leave, unless `remove_dead`
    is False: then they stay until the end of the episode, and can only do nothing. Every agent gets the reward of the team.
    """

    def __init__(self, env: str | Environment, *, remove_dead: bool = True, **options: Any) -> None:
        self.environment = episodes.environment(env, options)
        self.remove_dead = remove_dead
        spec = self.environment.spec
        self.metadata = {"name": f"refil_{self.environment.name}", "render_modes": []}
        self.possible_agents = [f"agent_{slot}" for slot in range(spec.agents)]
        self.agents: list[str] = []
        self.render_mode = None
        self.state_space = spaces.Box(-np.inf, np.inf, (spec.entities * spec.features,), np.float32)
        self._episodes = episodes.Episodes(self.environment)
        self.observation_space = cache(self._observation_space)  # the same object for an agent at every call
        self.action_space = cache(self._action_space)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, AgentObservation], dict[str, dict[str, Any]]]:
        """Start an episode of a random task, or of `options["task"]`; a seed determines all following episodes."""
        if seed is not None:
            self._episodes.seed(seed)
        timestep = self._episodes.reset((options or {}).get("task"))
        members = np.flatnonzero(timestep.obs.present[: len(self.possible_agents)])
        self.agents = [self.possible_agents[slot] for slot in members]
        return self._observations(), {agent: {"won": False} for agent in self.agents}

    def step(self, actions: dict[str, int | np.integer]) -> Results:
        """Take one step. Every agent in `agents` needs an action; the first allowed one replaces one that its mask forbids.

        PettingZoo's own seed test ignores masks, so that such actions cannot be errors.
        """
        timestep, acting = self._episodes.timestep, self.agents
        if missing := [agent for agent in acting if agent not in actions]:
            raise RefilError(f"no action for {', '.join(missing)}; every agent in env.agents needs one")
        available = np.asarray(timestep.obs.available)
        joint = available.argmax(axis=-1)  # no-op for dead and absent agents
        for agent in acting:
            slot, action = self._slot(agent), int(actions[agent])
            if 0 <= action < available.shape[-1] and available[slot, action]:
                joint[slot] = action
        outcome = self._episodes.step(joint)
        active = self._episodes.timestep.active
        dead = {agent: self.remove_dead and not active[self._slot(agent)] for agent in acting}
        terminations = {agent: outcome.terminated or dead[agent] for agent in acting}
        truncations = {agent: outcome.truncated and not terminations[agent] for agent in acting}
        observations = self._observations()
        self.agents = [agent for agent in acting if not (terminations[agent] or truncations[agent])]
        infos: dict[str, dict[str, Any]] = {agent: {"won": outcome.won} for agent in acting}
        return observations, dict.fromkeys(acting, outcome.reward), terminations, truncations, infos

    def state(self) -> np.ndarray:
        """Return the features of all entities, for centralized training."""
        return np.asarray(self._episodes.timestep.obs.entities).reshape(-1)

    def render(self) -> None:
        """Do nothing: `refil watch` and `refil battle` draw episodes."""

    def _slot(self, agent: str) -> int:
        return self.possible_agents.index(agent)

    def _observations(self) -> dict[str, AgentObservation]:
        timestep = self._episodes.timestep
        vectors, masks = np.asarray(timestep.vectors), np.asarray(timestep.obs.available).astype(np.int8)
        slots = {agent: self._slot(agent) for agent in self.agents}
        return {agent: {"observation": vectors[slot], "action_mask": masks[slot]} for agent, slot in slots.items()}

    def _observation_space(self, agent: str) -> spaces.Space:
        seen = spaces.Box(-np.inf, np.inf, (episodes.vector_size(self.environment),), np.float32)
        mask = spaces.Box(0, 1, (self.environment.spec.actions,), np.int8)
        return spaces.Dict({"observation": seen, "action_mask": mask})

    def _action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(self.environment.spec.actions)
