"""Environments that change another one."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from refil.types import Env, Observation, Outcome, Spec, State


@dataclass(frozen=True)
class EnvWrapper:
    """An environment that behaves like another one; subclasses change what they override."""

    env: Env

    @property
    def spec(self) -> Spec:
        """The sizes of the environment."""
        return self.env.spec

    @property
    def tasks(self) -> PyTree:
        """All tasks, one row each."""
        return self.env.tasks

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of all tasks."""
        return self.env.task_names

    def __getattr__(self, name: str) -> Any:  # optional attributes
        return getattr(self.env, name)

    def reset(self, task: PyTree, key: PRNGKeyArray) -> State:
        """Return the first state of an episode."""
        return self.env.reset(task, key)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Return the next state and the outcome of the actions."""
        return self.env.step(state, actions, key)

    def observe(self, state: State) -> Observation:
        """Observe a state."""
        return self.env.observe(state)


@dataclass(frozen=True)
class MaskDead(EnvWrapper):
    """An environment whose dead entities are absent, as if their slots were padding."""

    def observe(self, state: State) -> Observation:
        """Observe the living entities only."""
        obs = self.env.observe(state)
        if obs.alive is None:
            return obs
        both = obs.alive[: obs.visible.shape[-2], None] & obs.alive[None, :]
        return replace(obs, present=obs.present & obs.alive, visible=obs.visible & both)


@dataclass(frozen=True)
class Shortened(EnvWrapper):
    """An environment whose episodes are truncated earlier."""

    horizon: int

    @property
    def spec(self) -> Spec:
        """The sizes of the environment, with another horizon."""
        return replace(self.env.spec, horizon=self.horizon)
