"""Evaluation: how well teams do when they act greedily."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from refil.nn.utilities import team_policy, team_state
from refil.rollout import rollout, rollout_random_tasks
from refil.training import devices, exhaustion
from refil.types import Env, Trajectory


class EvalResult(eqx.Module):
    """Means over the episodes of each seed, or of each task and seed; `metrics` are those of the environment's outcomes."""

    win_rate: Float[Array, "*tasks seeds"]
    return_mean: Float[Array, "*tasks seeds"]
    length_mean: Float[Array, "*tasks seeds"]
    metrics: dict[str, Float[Array, "*tasks seeds"]]

    def means(self) -> dict[str, Any]:
        """Return all numbers but the win rate, by the names that `metrics.jsonl` has for them."""
        own = {name: getattr(self, name) for name in ("return_mean", "length_mean")}
        return own | {f"metrics.{name}": mean for name, mean in self.metrics.items()}


def evaluate(env: Env, models: PyTree, episodes: int, keys: Key[Array, " seeds"], epsilon: float = 0.0) -> EvalResult:
    """Play `episodes` episodes with each seed's model on uniformly sampled tasks; with epsilon 1 actions are random."""
    policy = team_policy(models, jnp.full(keys.shape, epsilon))
    state = team_state(models, episodes, env.spec.agents)
    return summarize(rollout_random_tasks(env, policy, state, episodes, keys))


def evaluate_by_task(
    env: Env, models: PyTree, episodes: int, keys: Key[Array, " seeds"], report: Callable[[str], None] = lambda text: None
) -> EvalResult:
    """Play `episodes` episodes of every task with each seed's model; one task at a time, to save memory.

    `report` gets a text before each task.
    """
    program = devices.program(env, partial(_evaluate_task, env, episodes))
    with exhaustion.explained("episodes"):
        (play,), results = devices.compile_all((program, models, keys, np.int32(0))), []
        exhaustion.check_program(play, devices.memory_bytes(), "episodes")
        for task, name in enumerate(env.task_names):
            report(f"task {task + 1} of {len(env.task_names)}: {name}")
            results.append(jax.device_get(play(models, keys, np.int32(task))))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *results)


def _evaluate_task(env: Env, episodes: int, models: PyTree, keys: Key[Array, " seeds"], task: Int[Array, ""]) -> EvalResult:
    policy = team_policy(models, jnp.zeros(keys.shape))
    state = team_state(models, episodes, env.spec.agents)
    task_keys = jax.vmap(lambda key: jax.random.fold_in(key, task))(keys)
    return summarize(rollout(env, policy, state, jnp.full((len(keys), episodes), task), task_keys))


def summarize(trajectories: Trajectory) -> EvalResult:
    """Return the means over recorded episodes."""
    valid = trajectories.valid
    returns = jnp.where(valid, trajectories.rewards, 0.0).sum(axis=-1)
    metrics = {name: total.mean(axis=-1) for name, total in trajectories.metrics.items()}
    return EvalResult(trajectories.won.mean(axis=-1), returns.mean(axis=-1), valid.sum(axis=-1).mean(axis=-1), metrics)
