"""The trainer: calls the compiled programs of an algorithm, and between calls logs, evaluates and saves.

It knows no algorithm: it calls the functions of the one that the method asks for (see `refil.training.replay.loop`), and reads
only counters and parameters of its state. Without signal handlers and output it also runs in notebooks and in threads.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from refil.errors import RefilError
from refil.hosted import LostError
from refil.rollout import derive_keys
from refil.storage import initial
from refil.storage.progress import Latest, NoProgress, Progress
from refil.storage.run_dir import RunDir
from refil.training import counters, devices, evaluation, exhaustion, flags
from refil.training.config import RunConfig
from refil.training.setup import EVALUATE, Setup

SAVED = "Training until then is saved; resume=True continues it"
Line = dict[str, Any]
Logger = Callable[[Line], None]


@dataclass(frozen=True)
class TrainResult:
    """The result of training: `models` have the seeds as their first axis; `metrics` are the lines logged by this call."""

    finished: bool
    metrics: list[Line]
    models: Any
    seeds: list[int]
    setup: Setup


def train(
    config: RunConfig,
    run: RunDir | None = None,
    resume: bool = False,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    loggers: Sequence[Logger] = (),
    init: Any = None,
) -> TrainResult:
    """Train until all steps are made or `should_stop` returns true; either way the state is saved if there is a run folder.

    `init` is a model to start every seed from; a run folder has its own.
    """
    flags.check(config.train.deterministic, config.train.kernels)
    computing = flags.computing(config.train.precision, config.train.kernels)
    with ThreadPoolExecutor() as threads, computing, exhaustion.explained("train.seeds, train.envs or the networks"):
        return Trainer(config, run, progress or NoProgress(), loggers, threads).run(resume, should_stop, init)


class Trainer:
    """Training of one run in one process."""

    def __init__(
        self, config: RunConfig, run: RunDir | None, progress: Progress, loggers: Sequence[Logger], threads: ThreadPoolExecutor
    ) -> None:
        self.config, self.run_dir, self.progress, self.loggers, self.threads = config, run, progress, loggers, threads
        setup = self.setup = config.build()
        algorithm = self.algorithm = config.algorithm_module()
        self.devices = devices.devices_for(algorithm, setup)
        steps = (partial(step, setup) for step in (algorithm.play, algorithm.learn))
        self.play, self.learn = self.devices.play_and_learn(setup.env, *steps)
        self.evaluate = self.devices.player(setup.env, partial(_evaluate, algorithm, setup))
        self.due = jax.jit(partial(_due, setup, config.output.log_every))
        self.mark_logged = jax.jit(partial(counters.mark_logged, setup.train, config.output.log_every))
        self.scalars = jax.jit(partial(algorithm.scalars, setup))
        self.copy = jax.jit(partial(jax.tree.map, jnp.copy))
        self.compressor = algorithm.compressor(setup)
        self.saving: Future[None] | None = None
        self.started, self.latest = time.monotonic(), Latest()
        self.lines: list[Line] = []

    @property
    def seconds(self) -> float:
        """The wall time of the run, including earlier processes."""
        return time.monotonic() - self.started

    def run(self, resume: bool, should_stop: Callable[[], bool], init: Any) -> TrainResult:
        """Play, learn, log and save until finished or stopped."""
        opened = time.monotonic()
        state, saved_at = self.start(resume, init), time.monotonic()
        if self.finished(state):
            self.complete_models(state)
            return self.result(state)
        if self.run_dir:
            self.run_dir.write_config(self.config)
        self.progress.log(", ".join(filter(None, [f"compiled after {saved_at - opened:.1f} s", self.devices.layout()])))
        self.progress.phase("training")
        played, failure = self.play(state), None
        while not self.finished(state) and not should_stop():
            try:
                state = self.learn(state, played)
                played = self.play(state)  # the device works on this while Python logs
                state = self.log(state)
            except LostError as error:
                failure = error
                break
            self.latest.learning = self.latest.learning or bool(np.asarray(state.counters.updates).any())
            self.progress.refresh(int(np.minimum(state.counters.env_steps, self.setup.train.steps).mean()), self.latest)
            if self.saving and self.saving.done():
                self.finish_saving()
                saved_at = time.monotonic()
            if not self.saving and time.monotonic() - saved_at > 60 * self.config.output.save_every:
                self.save(state)
        self.finish_saving()
        self.save(state)
        self.finish_saving()
        if failure:
            raise failure if self.run_dir is None else LostError(f"{failure}. {SAVED}", self.run_dir.path) from failure
        return self.result(state)

    def finished(self, state: Any) -> bool:
        """Return whether all seeds have made their steps."""
        return bool(np.asarray(state.counters.env_steps).min() >= self.setup.train.steps)

    def result(self, state: Any) -> TrainResult:
        """Return the models and metrics."""
        models, seeds = jax.device_get(self.algorithm.models(state)), np.asarray(state.counters.seed).tolist()
        return TrainResult(self.finished(state), self.lines, models, seeds, self.setup)

    def start(self, resume: bool, init: Any) -> Any:
        """Return a new state or the saved one, with all slow programs compiled unless nothing is left to do."""
        devices.check_device_memory(partial(self.algorithm.required_bytes, self.setup), self.devices)
        init = initial.stored(self.run_dir.path, self.setup) if self.run_dir and not self.run_dir.has_checkpoint else init
        self.progress.phase("compiling play, learn and evaluate")
        seed = jnp.int32(self.setup.train.seed)  # an argument: runs with other seeds find the program in the cache
        new = jax.jit(partial(self.algorithm.init, self.setup, init)).lower(seed)
        shapes = self.devices.sharded_shapes(new.out_info)
        if self.run_dir and resume and self.run_dir.has_checkpoint:
            state = self.devices.shard(self.restore(self.run_dir, shapes))
            if not self.finished(state):
                self.compile(state)
            return state
        if self.run_dir and (archived := self.run_dir.archive_unsaved()):
            self.progress.message(f"There is no checkpoint, so training starts again; earlier files are in {archived}")
        started = self.threads.submit(lambda: new.compile()(seed))
        self.compile(shapes)
        return self.devices.shard(started.result())

    def restore(self, run: RunDir, shapes: Any) -> Any:
        """Return the state of the last checkpoint."""
        uncompressed = run.num_uncompressed
        if uncompressed is not None:
            shapes = self.compressor.shapes(shapes, uncompressed)
        state, seconds = run.load_checkpoint(shapes, self.config)
        self.latest.add(run.metrics())
        self.started -= seconds
        state = jax.tree.map(jnp.asarray, state)
        return state if uncompressed is None else self.compressor.decompress(state)

    def compile(self, state: Any) -> None:
        """Compile the programs that every run calls; others compile when they are first called."""
        played = self.devices.sharded_shapes(self.algorithm.rollout_shapes(self.setup, state, self.play))
        counts = state.counters
        self.learn, self.play, self.evaluate, self.scalars, self.due, self.mark_logged = devices.compile_all(
            (self.learn, state, played),
            *((each, state) for each in (self.play, self.evaluate, self.scalars)),
            *((each, counts) for each in (self.due, self.mark_logged)),
        )
        exhaustion.check_program(self.evaluate, devices.memory_bytes(), "train.eval_episodes")

    def log(self, state: Any) -> Any:
        """Log a line of metrics for every seed that has one due, with an evaluation where that is due."""
        log_due, eval_due = (np.asarray(flags) for flags in self.due(state.counters))
        if not log_due.any():
            return state
        counts, scalars = jax.device_get((state.counters, self.scalars(state)))
        with exhaustion.explained("train.eval_episodes"):
            results, lines = (jax.device_get(self.evaluate(state)) if eval_due.any() else None), []
        for row in np.flatnonzero(log_due):
            line = {name: getattr(counts, name)[row].item() for name in ("seed", "env_steps", "episodes", "updates")}
            line |= {name: values[row].item() for name, values in scalars.items()}
            updates = counts.updates_since_log[row]
            line |= {name: (sums[row] / updates).item() if updates else None for name, sums in counts.metrics.items()}
            if results is not None and eval_due[row]:
                line |= results.line(int(row))
            lines.append(line | {"seconds": round(self.seconds, 3)} | devices.peak_bytes())
        self.write(lines)
        return replace(state, counters=self.mark_logged(state.counters))

    def write(self, lines: list[Line]) -> None:
        """Append lines to the metrics and hand them to the loggers; raise if a loss is not finite."""
        for line in lines:
            if line["loss"] is not None and not math.isfinite(line["loss"]):
                where = f"; the last checkpoint in {self.run_dir.path} is intact" if self.run_dir else ""
                raise RefilError(
                    f"the loss of seed {line['seed']} is {line['loss']} after {line['env_steps']} steps{where}. "
                    f"Try a learning rate below {getattr(self.config.algorithm, 'lr', 'the current one')}"
                )
        self.lines += lines
        if self.run_dir:
            self.run_dir.append_metrics(lines)
        for logger in self.loggers:
            for line in lines:
                logger(line)
        self.latest.add(lines)

    def save(self, state: Any) -> None:
        """Start to save a copy of the state in the background, unless the models are not finite."""
        if not self.run_dir:
            return
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.learner.parameters)):
            raise RefilError("a model is not finite; it was not saved, and the last checkpoint is intact")
        self.saving = self.threads.submit(
            self.write_checkpoint, self.run_dir, self.copy(state), self.seconds, self.run_dir.metrics_bytes
        )

    def finish_saving(self) -> None:
        """Wait for a save in progress, and raise what went wrong in it."""
        if self.saving:
            self.saving.result()
        self.saving = None

    def write_checkpoint(self, run: RunDir, state: Any, seconds: float, metrics_bytes: int) -> None:
        """Write the models, then the checkpoint: a checkpoint of a finished run implies its models."""
        models, seeds, uncompressed = self.algorithm.models(state), np.asarray(state.counters.seed).tolist(), None
        if self.config.output.compact_checkpoints and self.compressor:
            with flags.computing(self.config.train.precision, self.config.train.kernels):  # this thread has its own settings
                state, uncompressed = self.compressor.compress(state)
        run.save_models(models, seeds, self.config)
        run.save_checkpoint(state, self.config, seconds, metrics_bytes, uncompressed)

    def complete_models(self, state: Any) -> None:
        """Save a finished run again if models are missing, or are not those that belong to its checkpoint."""
        if self.run_dir and not self.run_dir.has_models(np.asarray(state.counters.seed).tolist()):
            self.save(state)
            self.finish_saving()


def _evaluate(algorithm: Any, setup: Setup, state: Any) -> evaluation.EvalResult:
    keys = derive_keys(state.counters.seed, EVALUATE, state.counters.env_steps)
    return evaluation.evaluate(setup.env, algorithm.models(state), setup.train.eval_episodes, keys)


def _due(setup: Setup, log_every: int, counts: counters.Counters) -> tuple[jax.Array, jax.Array]:
    return counters.log_due(setup.train, log_every, counts), counters.eval_due(setup.train, counts)
