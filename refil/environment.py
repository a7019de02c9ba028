"""Environments to step by hand, for `refil.make`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from refil import plugins, settings
from refil.errors import RefilError, list_choices
from refil.rollout import observe_batch
from refil.training import contracts
from refil.training.config import ENVS
from refil.types import Env, Observation, Spec
from refil.wrappers import MaskDead


class EnvState(eqx.Module):
    """The state of an environment, and what the wrapper keeps track of."""

    core: PyTree
    last_action: Int[Array, " agents"]
    time: Int[Array, ""]
    done: Bool[Array, ""]


class StepOutcome(eqx.Module):
    """The result of one joint action; `truncated` means that the episode was cut off at the horizon.

    `metrics` are those of the environment's outcome, zero after the end of the episode.
    """

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    won: Bool[Array, ""]
    metrics: dict[str, Array] = eqx.field(default_factory=dict)

    @property
    def done(self) -> Bool[Array, ""]:
        """Whether the episode is over."""
        return self.terminated | self.truncated


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment to step by hand: pure functions of one episode, for `jax.jit`, `jax.vmap` and `jax.lax.scan`.

    It fills in last actions and enforces the horizon. Steps after the end of an episode change nothing and pay nothing.
    `core` is the environment itself (`refil.types.Env`).
    """

    core: Env
    name: str

    @property
    def spec(self) -> Spec:
        """The numbers of agents, entities, features and actions, and the horizon."""
        return self.core.spec

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of all tasks."""
        return self.core.task_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features; numbers if the environment has no names."""
        return tuple(getattr(self.core, "feature_names", (f"feature {number}" for number in range(self.spec.features))))

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions; numbers if the environment has no names."""
        return tuple(getattr(self.core, "action_names", (f"action {number}" for number in range(self.spec.actions))))

    def reset(self, key: PRNGKeyArray, task: str | int | Int[Array, ""] | None = None) -> tuple[EnvState, Observation]:
        """Start an episode of the given task, by name or number, or of one sampled from the key."""
        key_task, key_reset = jax.random.split(key)
        if task is None:
            task = jax.random.randint(key_task, (), 0, len(self.task_names))
        elif isinstance(task, str):
            if task not in self.task_names:
                raise RefilError(f"unknown task {task!r} of {self.name}; {list_choices(task, self.task_names)}")
            task = self.task_names.index(task)
        elif isinstance(task, int) and not 0 <= task < len(self.task_names):
            raise RefilError(f"{self.name} has no task {task}; its tasks are numbered from 0 to {len(self.task_names) - 1}")
        core = self.core.reset(jax.tree.map(lambda leaf: jnp.asarray(leaf)[task], self.core.tasks), key_reset)
        no_action = jnp.full((self.spec.agents,), -1)
        state = EnvState(core, no_action, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
        return state, self.observe(state)

    def step(
        self, state: EnvState, actions: Int[Array, " agents"], key: PRNGKeyArray
    ) -> tuple[EnvState, Observation, StepOutcome]:
        """Take one step."""
        core, outcome = self.core.step(state.core, actions, key)
        core = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), core, state.core)
        time = jnp.where(state.done, state.time, state.time + 1)
        running = ~state.done
        terminated = running & outcome.terminated
        truncated = running & ~outcome.terminated & (time >= self.spec.horizon)
        after = EnvState(core, jnp.asarray(actions), time, state.done | terminated | truncated)
        reward, metrics = jax.tree.map(lambda value: jnp.where(running, value, 0), (outcome.reward, outcome.metrics))
        result = StepOutcome(reward, terminated, truncated, running & outcome.won, metrics)
        return after, self.observe(after), result

    def observe(self, state: EnvState) -> Observation:
        """Return the observation of a state."""
        batched = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None, None], (state.core, state.last_action, state.time == 0))
        return jax.tree.map(lambda leaf: leaf[0, 0], observe_batch(self.core, *batched))


def make(env: str | Path, *, mask_dead: bool = False, **options: Any) -> Environment:
    """Build an environment: a name from `refil list`, any two armies such as "3s5z_vs_3s6z", or the path of a Python file.

    `options` are those of the environment (`refil train ENV --help` lists them as `--env.NAME`).
    """
    name = plugins.as_name(env)
    module = plugins.load(ENVS, name)
    defaults = contracts.default_options(module, name, ("config",))
    core = contracts.build(module, name, settings.from_json(defaults, options, ("env",)))
    contracts.check_env(core, name, traced=contracts.is_user_file(name))  # tests trace the package's own
    return Environment(MaskDead(core) if mask_dead else core, name)
