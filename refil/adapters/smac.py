"""SMAC: refil's environments with the methods of SMAC's `StarCraft2Env`, and with the entities of the REFIL authors' version.

PyMARL and the code that grew from it call these methods. No other library is needed.
"""

from typing import Any

import numpy as np

from refil.adapters import episodes
from refil.environment import Environment


class SmacEnv:
    """An environment for one team; lists have an entry per agent slot, and absent agents have only their first action.

    Unlike REFIL's code, refil calls what is there or seen True. `get_masks` returns the authors' convention: 1 means hidden.
    """

    def __init__(self, env: str | Environment, *, seed: int | None = None, **options: Any) -> None:
        self.environment = episodes.environment(env, options)
        spec = self.environment.spec
        self.n_agents, self.n_entities, self.n_actions = spec.agents, spec.entities, spec.actions
        self.episode_limit = spec.horizon
        self._episodes = episodes.Episodes(self.environment)
        self.seed(seed)
        self.battles_game = self.battles_won = self.timeouts = 0

    def seed(self, seed: int | None = None) -> None:
        """Set the seed of all following episodes; None chooses one."""
        self._episodes.seed(seed)

    def reset(self, task: str | None = None, **ignored: Any) -> tuple[list[np.ndarray], np.ndarray]:
        """Start an episode of a random task, or of the given one; PyMARL's other arguments have no effect."""
        self._episodes.reset(task)
        return self.get_obs(), self.get_state()

    def step(self, actions: Any) -> tuple[float, bool, dict[str, Any]]:
        """Take one step; return the reward, whether the episode is over, and "battle_won" and "episode_limit"."""
        outcome = self._episodes.step(np.asarray(actions).reshape(self.n_agents))
        over = outcome.terminated or outcome.truncated
        self.battles_game += over
        self.battles_won += over and outcome.won
        self.timeouts += outcome.truncated
        return outcome.reward, over, {"battle_won": outcome.won, "episode_limit": outcome.truncated}

    def get_obs(self) -> list[np.ndarray]:
        """Return what each agent sees: its own features, then those of all entities."""
        return list(np.asarray(self._episodes.timestep.vectors))

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        """Return what one agent sees."""
        return np.asarray(self._episodes.timestep.vectors)[agent_id]

    def get_obs_size(self) -> int:
        """Return the length of what each agent sees."""
        return episodes.vector_size(self.environment)

    def get_state(self) -> np.ndarray:
        """Return the features of all entities as one vector."""
        return np.asarray(self._episodes.timestep.obs.entities).reshape(-1)

    def get_state_size(self) -> int:
        """Return the length of the state."""
        return self.n_entities * self.get_entity_size()

    def get_entities(self) -> list[np.ndarray]:
        """Return the features of each entity; agents are the first ones."""
        return list(np.asarray(self._episodes.timestep.obs.entities))

    def get_entity_size(self) -> int:
        """Return the number of features of an entity."""
        return self.environment.spec.features

    def get_masks(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which entities are hidden from which, and which slots are empty, as REFIL's code has them.

        The first mask has a row per entity; those of entities that are not agents are all 1.
        """
        obs = self._episodes.timestep.obs
        hidden = np.ones((self.n_entities, self.n_entities), np.uint8)
        hidden[: self.n_agents] = ~np.asarray(obs.visible)
        return hidden, (~np.asarray(obs.present)).astype(np.uint8)

    def get_avail_actions(self) -> list[list[int]]:
        """Return 1 for each action that an agent can choose, else 0."""
        return np.asarray(self._episodes.timestep.obs.available).astype(int).tolist()

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """Return 1 for each action that one agent can choose, else 0."""
        return self.get_avail_actions()[agent_id]

    def get_total_actions(self) -> int:
        """Return the number of actions."""
        return self.n_actions

    def get_env_info(self, args: Any = None) -> dict[str, Any]:
        """Return all sizes: SMAC's, and those of REFIL's entities."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "entity_shape": self.get_entity_size(),
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "n_entities": self.n_entities,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, Any]:
        """Return counts of finished episodes."""
        rate = self.battles_won / self.battles_game if self.battles_game else 0.0
        counts = {"battles_game": self.battles_game, "battles_won": self.battles_won, "timeouts": self.timeouts}
        return counts | {"win_rate": rate, "restarts": 0}

    def get_agg_stats(self, stats: Any) -> dict[str, Any]:
        """Return nothing; REFIL's code asks for it."""
        return {}

    def render(self) -> None:
        """Do nothing: `refil watch` and `refil battle` draw episodes."""

    def save_replay(self) -> None:
        """Do nothing: `refil watch` writes replay pages."""

    def close(self) -> None:
        """Do nothing; PyMARL calls it at the end."""
