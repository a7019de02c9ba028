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

WON_LENGTH = "won_length_mean"


class EvalResult(eqx.Module):
    """Means over the episodes of each seed, or of each task and seed; `metrics` are those of the environment's outcomes.

    `won_length_mean` is the mean length of won episodes, NaN where none was won.
    """

    win_rate: Float[Array, "*tasks seeds"]
    return_mean: Float[Array, "*tasks seeds"]
    length_mean: Float[Array, "*tasks seeds"]
    won_length_mean: Float[Array, "*tasks seeds"]
    metrics: dict[str, Float[Array, "*tasks seeds"]]

    def means(self) -> dict[str, Any]:
        """Return all numbers but the win rate, by the names that `metrics.jsonl` has for them."""
        own = {name: getattr(self, name) for name in ("return_mean", "length_mean", WON_LENGTH)}
        return own | {f"metrics.{name}": mean for name, mean in self.metrics.items()}

    def line(self, row: int) -> dict[str, float | None]:
        """Return the numbers of a seed as a line of metrics has them; None stands for the length of no episode."""
        numbers = {"win_rate": self.win_rate} | self.means()
        line = {name: values[row].item() for name, values in numbers.items()}
        return line | {WON_LENGTH: without_nan(line[WON_LENGTH])}


def without_nan(value: Any) -> Any:
    """Return a number, or None for NaN; in nested lists too."""
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if np.isnan(value) else value


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
    lengths, won = valid.sum(axis=-1), trajectories.won
    won_length = jnp.where(won, lengths, 0).sum(axis=-1) / won.sum(axis=-1)  # 0 / 0 is NaN
    metrics = {name: total.mean(axis=-1) for name, total in trajectories.metrics.items()}
    return EvalResult(won.mean(axis=-1), returns.mean(axis=-1), lengths.mean(axis=-1), won_length, metrics)
