"""Episodes of any environment with a scene: random actions or a trained team on a task and a seed of the user's choice."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from refil.errors import RefilError, list_choices, user_code
from refil.nn.utilities import team_policy, team_state
from refil.rollout import is_hosted, random_policy, rollout
from refil.team import Team
from refil.training import devices
from refil.types import Env, Trajectory
from refil.viewer.details import compile_inspection
from refil.viewer.replay import Replay, replays


@dataclass(frozen=True, eq=False)
class Player:
    """An environment, and the team that plays it, or None for random actions; programs are compiled once."""

    env: Env
    name: str
    team: Team | None = None

    def describe(self) -> dict[str, Any]:
        """Return what the page shows about this player."""
        label = f"{self.name}: random actions" if self.team is None else f"{self.name}: trained team"
        return {"label": label, "tasks": list(self.env.task_names)}

    def play(self, task: Any, seed: int) -> Replay:
        """Play one episode of a task; a team plays the same one in `team.play(1, task, seed)`."""
        names = self.env.task_names
        if task not in names:
            raise RefilError(f"unknown task {task!r} of {self.name}; {list_choices(str(task), names)}")
        keys = jax.random.split(jax.random.key(seed), 1)
        with user_code(f"{self.name}: an episode"):
            played = self._run(self._models, jnp.full((1, 1), names.index(task)), keys)
            trajectories = jax.tree.map(lambda leaf: leaf[0], jax.device_get(played))
            model = None if self.team is None else self.team.model
            return replays(self.env, trajectories, model, self._inspection)[0]

    @property
    def _models(self) -> Any:
        model = None if self.team is None else self.team.model
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], model)

    @cached_property
    def _run(self) -> Any:
        def run(models: Any, tasks: Int[Array, "1 1"], keys: Key[Array, " 1"]) -> Trajectory:
            if self.team is None:
                return rollout(self.env, random_policy, (), tasks, keys)
            policy, start = team_policy(models, jnp.zeros(1)), team_state(models, 1, self.env.spec.agents)
            return rollout(self.env, policy, start, tasks, keys)

        return run if is_hosted(self.env) else devices.jit_quickly(run)

    @cached_property
    def _inspection(self) -> Any:
        return compile_inspection(self.env)
