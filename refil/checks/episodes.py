"""Episodes of random actions in an environment, to check its properties on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from refil import rollout
from refil.training.devices import jit_quickly
from refil.types import Env, Observation, Trajectory
from refil.wrappers import Shortened

MAX_BYTES = 2e8  # memory of all observations
MAX_EPISODES, SAMPLES = 40, 64


@dataclass(frozen=True, eq=False)
class Subject:
    """An environment, and episodes of random actions in it; `steps` shortens them."""

    env: Env
    steps: int | None = None
    seed: int = 0

    @cached_property
    def _program(self) -> Callable[[Array, Array], tuple[Trajectory, Observation]]:
        horizon = self.env.spec.horizon
        env = Shortened(self.env, min(self.steps or horizon, horizon))

        def run(tasks: Array, keys: Array) -> tuple[Trajectory, Observation]:
            played = rollout.rollout(env, rollout.random_policy, (), tasks, keys)
            obs = jax.vmap(jax.vmap(jax.vmap(self.env.observe)))(played.states)
            return jax.tree.map(lambda leaf: leaf[0], (played, obs))

        return jit_quickly(run)

    def play(self) -> tuple[Trajectory, Observation]:
        """Play the episodes: `[episodes, time, ...]`, observations with one timestep more."""
        tasks = np.arange(self.num_episodes)[None] % len(self.env.task_names)
        return jax.device_get(self._program(jnp.asarray(tasks), jax.random.split(jax.random.key(self.seed), 1)))

    @cached_property
    def num_episodes(self) -> int:
        """Two of each task, unless observations would take too much memory."""
        spec = self.env.spec
        size = 4 * (spec.features + 2 * spec.agents) * spec.entities * (min(self.steps or spec.horizon, spec.horizon) + 1)
        return int(np.clip(2 * len(self.env.task_names), 8, max(8, min(MAX_EPISODES, MAX_BYTES // size))))

    @cached_property
    def episodes(self) -> tuple[Trajectory, Observation]:
        """The episodes, played once."""
        return self.play()

    @property
    def obs(self) -> Observation:
        """All observations of valid timesteps, one after another, the last one of each episode included."""
        trajectories, obs = self.episodes
        reached = np.pad(trajectories.valid, [(0, 0), (1, 0)], constant_values=True)
        return jax.tree.map(lambda leaf: leaf[reached], obs)

    def sampled_states(self) -> PyTree:
        """Return states from before the ends of episodes."""
        trajectories = self.episodes[0]
        episode, time = np.nonzero(trajectories.valid)
        chosen = np.random.default_rng(self.seed).permutation(len(episode))[:SAMPLES]
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[episode[chosen], time[chosen]]), trajectories.states)
