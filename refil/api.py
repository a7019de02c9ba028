"""The Python API: environments, training, trained teams and evaluation, without command line, signals or global state."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from refil import plugins, stats, teams
from refil.environment import Environment
from refil.errors import RefilError, describe, list_choices
from refil.hardware import Kernels
from refil.storage import initial, run_dir
from refil.team import Team
from refil.training import config as run_config
from refil.training import devices, evaluation, flags, memory, trainer
from refil.training.transfer import sizes


def configure(precision: flags.Precision = "float32", deterministic: bool = False, kernels: Kernels = "auto") -> None:
    """Set how JAX computes in this process; call it before the first array is created.

    `precision` is that of matrix products on a GPU ("float32", "tf32", "bf16", "auto"). On a CPU, rounding becomes independent
    of how computations are batched, so that runs are bit-identical to those of the command line. `deterministic` does that on a
    GPU. `kernels` is "auto" (on GPUs that support them), "on" or "off".
    """
    flags.configure(precision, deterministic, kernels)


class Metrics(Sequence[dict[str, Any]]):
    """Lines of metrics, one dictionary per seed and report."""

    def __init__(self, lines: Sequence[dict[str, Any]]) -> None:
        self._lines = list(lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: Any) -> Any:
        return self._lines[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._lines)

    def __repr__(self) -> str:
        return f"Metrics({len(self)} lines, {', '.join(self._lines[0]) if self._lines else 'empty'})"

    def to_pandas(self) -> Any:
        """Return a DataFrame; needs pandas."""
        try:
            import pandas  # pyright: ignore[reportMissingImports] (an optional dependency)
        except ImportError as error:
            raise RefilError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._lines)


@dataclass(frozen=True)
class Run:
    """A finished or stopped training run: its config, its metrics, a team per seed, and its folder if it has one."""

    config: run_config.RunConfig
    metrics: Metrics
    teams: tuple[Team, ...]
    finished: bool
    path: Path | None


def train(
    env: str | Path,
    method: str | Path = "refil",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    env_options: dict[str, Any] | None = None,
    method_options: dict[str, Any] | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    init: Team | None = None,
    **options: Any,
) -> Run:
    """Train a method on an environment and return its metrics and teams.

    `options` are those of `refil train` (`steps=20_000, seeds=5, envs=128, lr=1e-3`, ...). `env_options` and `method_options`
    are dictionaries of what `refil train ENV --method NAME --help` lists as `--env.NAME` and `--method.NAME`. With `out` the
    run is saved in that folder and `resume=True` continues it; otherwise nothing is written. `callback` gets every line of
    metrics. `should_stop()` is asked between iterations; if it returns true, training saves and ends. `init` is a trained team
    to start from. Training works outside the main thread.
    """
    env, method = plugins.as_name(env), plugins.as_name(method)
    _check_options(env_options=env_options, method_options=method_options)
    config = run_config.default(env, method).with_options(env_options, method_options, **options)
    if init is not None:
        _check_team("init", init)
    if config.has_user_code:
        config.build(dry_run=True)  # raises before anything is written
    model = None if init is None else init.model
    if init is not None:
        initial.check(model, config.build(), init.name)
    call = {"should_stop": should_stop, "loggers": [callback] if callback else [], "init": model}
    if out is None:
        if resume:
            raise RefilError("resume=True needs out, the folder of the run")
        result = trainer.train(config, **call)
        lines, path = result.metrics, None
    else:
        path = Path(out)
        with run_dir.locked(path):
            if resume:
                run = run_dir.open_run(path)
                run_config.check_changes(run.differences(config))
            else:
                run = run_dir.create(path, config, model)
            result = trainer.train(config, run, resume, **call)
            lines = run.metrics()
    teams = tuple(
        Team(jax.tree.map(lambda leaf, row=row: leaf[row], result.models), result.setup.env, f"{method} on {env}", seed)
        for row, seed in enumerate(result.seeds)
    )
    return Run(config, Metrics(lines), teams, result.finished, path)


def load(name: str | Path, seed: int | None = None, *, trust: bool = False) -> Team:
    """Load a trained team: one that ships with refil, such as "3-8sz" (`refil teams` lists them), or one from a run's folder.

    A string without a path separator is the name of a team first. From a run, the model of the first seed is loaded unless one
    is given. With `trust` the code of the run's environment and method may run although somebody else wrote it: read it first.
    """
    if not isinstance(name, str | Path):
        raise RefilError(f"the name of a team must be a string, not {describe(name)}; {list_choices('', teams.names())}")
    return teams.load_any(name, seed, trust)


def _check_options(**given: object) -> None:
    """Raise if an argument is no dictionary of options."""
    for name, value in given.items():
        if not isinstance(value, dict | None):
            raise RefilError(f"{name} must be a dictionary of options, not {describe(value)}")


def _check_team(name: str, value: object) -> None:
    """Raise if an argument is no team."""
    if not isinstance(value, Team):
        known = ", ".join(teams.names())
        raise RefilError(f"{name} must be a Team, not {describe(value)}; refil.load returns that of a run's folder, or {known}")


@dataclass(frozen=True)
class TaskResult:
    """Means over greedy episodes of one task; `ci95` is Wilson's 95 % interval of the win rate over these episodes.

    `metrics` are those of the environment's outcomes, summed over each episode. `won_length_mean` is the mean length of won
    episodes, None if none was won.
    """

    win_rate: float
    ci95: tuple[float, float]
    return_mean: float
    length_mean: float
    metrics: dict[str, float] = field(default_factory=dict)
    won_length_mean: float | None = None


@dataclass(frozen=True)
class EvalSummary:
    """Means over greedy episodes; `ci95` is Wilson's 95 % interval of the win rate over all of them.

    `metrics` are those of the environment's outcomes, summed over each episode. `by_task` has every task if it was asked for,
    with `episodes` episodes each. `won_length_mean` is the mean length of won episodes, None if none was won.
    """

    episodes: int
    win_rate: float
    ci95: tuple[float, float]
    return_mean: float
    length_mean: float
    by_task: dict[str, TaskResult] | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    won_length_mean: float | None = None


def evaluate(
    team: Team, *, episodes: int = 200, by_task: bool = False, env: Environment | None = None, seed: int = 0
) -> EvalSummary:
    """Let a team play greedily, in its own environment or in another one of the same sizes: a fresh evaluation.

    The final win rate of a run differs from it: that is a mean over evaluations near the end of training (`refil.stats.final`).
    With `by_task` every task is played `episodes` times; otherwise tasks are sampled.
    """
    _check_team("team", team)
    if env is not None and not isinstance(env, Environment):
        raise RefilError(f"env must be an environment from refil.make, not {describe(env)}")
    core = team.env if env is None else env.core
    if env is not None and sizes(core.spec) != sizes(team.env.spec):
        raise RefilError(f"{team.name} needs an environment with {sizes(team.env.spec)}, not {sizes(core.spec)}")
    models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], team.model)
    memory.check_count(episodes, "episodes")
    memory.check_episodes(core, episodes, "episodes")
    keys = jax.random.split(jax.random.key(seed), 1)
    if by_task:
        result = evaluation.evaluate_by_task(core, models, episodes, keys)
        rows = (jax.tree.map(lambda leaf, row=row: leaf[row], result) for row in range(len(core.task_names)))
        tasks = {name: TaskResult(**_means(row, episodes)) for name, row in zip(core.task_names, rows, strict=True)}
        return EvalSummary(episodes, **_means(result, episodes * len(tasks)), by_task=tasks)
    result = devices.run(core, lambda models, keys: evaluation.evaluate(core, models, episodes, keys), models, keys)
    return EvalSummary(episodes, **_means(result, episodes))


def _means(result: evaluation.EvalResult, episodes: int) -> dict[str, Any]:
    found: dict[str, Any] = jax.tree.map(lambda leaf: float(np.mean(leaf, dtype=float)), vars(result))
    found[evaluation.WON_LENGTH] = _won_length(result)
    return found | {"ci95": stats.wilson_interval(found["win_rate"], episodes)}


def _won_length(result: evaluation.EvalResult) -> float | None:
    """Return the mean length of all won episodes; tasks have as many episodes each, so that win rates are their weights."""
    rates, lengths = (np.asarray(each, float) for each in (result.win_rate, result.won_length_mean))
    won = rates > 0
    return float(np.average(lengths[won], weights=rates[won])) if won.any() else None
