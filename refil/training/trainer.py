"""Trains: calls the loop on the device, and between calls reports, evaluates and saves. The only file that does."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import loggers, run_dir
from refil.storage.progress import Display
from refil.training import devices, evaluation, setup
from refil.training.config import Experiment
from refil.training.devices import Devices
from refil.training.replay import compression, loop
from refil.training.replay.compression import Condensed, Uncondensed
from refil.training.replay.loop import TrainState
from refil.training.setup import Loop

WHOLE_AT_ONCE = 16  # episodes that are saved whole come in so many


def run(experiment: Experiment, folder: run_dir.Run, resume: bool = False) -> bool:
    """Train until the steps are done (True) or something stops it (False); either way everything is saved."""
    with ExitStack() as stack:
        logs = loggers.open_all(experiment, folder.path, stack)
        display = stack.enter_context(Display(experiment.options.steps * experiment.options.seeds))
        stopped = stack.enter_context(stop_requests(experiment.options.stop_after, display.tell))
        threads = stack.enter_context(ThreadPoolExecutor())
        return Session(experiment, folder, display, logs, threads).go_on(resume, stopped)


class Session:
    """One process's share of a run."""

    def __init__(
        self,
        experiment: Experiment,
        folder: run_dir.Run,
        display: Display,
        logs: list[loggers.Log],
        threads: ThreadPoolExecutor,
    ) -> None:
        self.folder, self.display, self.logs, self.threads = folder, display, logs, threads
        self.experiment = experiment
        loop_ = self.loop = experiment.build()
        self.devices = Devices(loop_.schedule.seeds)
        self.play = devices.jit(self.devices.each(partial(loop.play_on, loop_)))
        self.learn = devices.jit(self.devices.each(partial(loop.learn_from, loop_)), donate_argnums=0)
        self.report = jax.jit(partial(loop.report, loop_), donate_argnums=0)
        self.due = jax.jit(lambda training: (loop.line_due(loop_, training), loop.eval_due(loop_, training)))
        self.epsilon = jax.jit(partial(loop.epsilon, loop_.schedule))
        self.score = devices.jit(self.devices.each(partial(score, loop_)))
        self.play_again = devices.jit(partial(compression.play_again, loop_.env))
        self.differing, self.leave, self.put_back = map(
            jax.jit, (compression.differing, compression.leave, compression.put_back)
        )
        self.copy = jax.jit(partial(jax.tree.map, jnp.copy))
        self.saving: Future[None] | None = None
        self.began = time.monotonic()
        self.latest: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Wall time of the run, earlier processes included."""
        return time.monotonic() - self.began

    def go_on(self, resume: bool, stopped: Callable[[], bool]) -> bool:
        """Play, learn, report and save until done or stopped."""
        opened, schedule = time.monotonic(), self.loop.schedule
        training, saved_at = self.start(resume), time.monotonic()
        if self.done(training):
            self.complete_models(training)
            return True  # and what was saved of it stays as it is
        self.folder.keep_experiment(self.experiment)  # now that it goes on, as it was asked for
        self.display.say(f"compiled after {saved_at - opened:.1f} s")
        played = self.play(training)
        while not self.done(training) and not stopped():
            training = self.learn(training, played)
            played = self.play(training)  # at once: the device need not wait while Python looks at what there is to report
            training = self.write_lines(training)
            self.display.show(int(np.minimum(training.env_steps, schedule.steps).sum()), self.latest)
            if self.saving and self.saving.done():
                self.finish_saving()
                saved_at = time.monotonic()
            if not self.saving and time.monotonic() - saved_at > 60 * schedule.save_every:
                self.save(training)
        self.finish_saving()
        self.save(training)
        self.finish_saving()
        return self.done(training)

    def done(self, training: TrainState) -> bool:
        """Whether all seeds have made their steps."""
        return bool(np.asarray(training.env_steps).min() >= self.loop.schedule.steps)

    def start(self, resume: bool) -> TrainState:
        """A fresh state, or the saved one, and all that takes long compiled, unless there is nothing left to do."""
        begin = jax.jit(partial(loop.begin, self.loop)).lower()
        devices.check_room(begin.out_info, len(self.devices))
        like = self.devices.shapes_shared_out(begin.out_info)
        if resume and self.folder.saved:
            training = self.devices.share_out(self.restored(like))
            if not self.done(training):
                self.compile(training)
            return training
        if kept := self.folder.restart():
            self.display.tell(f"Nothing was saved to go on from: training begins anew. What was there is in {kept}")
        begun = self.threads.submit(lambda: begin.compile()())
        self.compile(like)
        return self.devices.share_out(begun.result())

    def restored(self, like: TrainState) -> TrainState:
        """What was saved of a state like this."""
        whole = self.folder.episodes_whole
        if whole is not None:
            episodes, places = like.replay.trajectories, jax.ShapeDtypeStruct((whole,), jnp.int32)
            condensed = jax.eval_shape(partial(compression.condense, self.loop.env), episodes)
            like = with_episodes(like, (condensed, jax.eval_shape(compression.leave, episodes, places)))
        saved, seconds = self.folder.restore(like)
        self.began -= seconds
        saved = jax.tree.map(jnp.asarray, saved)
        if whole is not None:
            condensed, left = saved.replay.trajectories
            saved = with_episodes(saved, self.put_back(self.play_again(condensed, saved.replay.inserted), left))
        return saved

    def compile(self, training: TrainState) -> None:
        """Compile what every run calls, for a state like this; all else is compiled when it is first called."""
        played = self.devices.shapes_shared_out(loop.shapes_played(self.loop, training))
        self.learn, self.play, self.score, self.report, self.due, self.epsilon = devices.compiled(
            (self.learn, training, played),
            *((each, training) for each in (self.play, self.score, self.report, self.due, self.epsilon)),
        )

    def write_lines(self, training: TrainState) -> TrainState:
        """Write a line for every seed that has one due, with an evaluation where that is due."""
        line_due, eval_due = (np.asarray(flags) for flags in self.due(training))
        if not line_due.any():
            return training
        counts = {name: np.asarray(getattr(training, name)) for name in ("seed", "env_steps", "episodes")}
        counts |= {"updates": np.asarray(training.learner.updates), "epsilon": np.asarray(self.epsilon(training))}
        metrics, updates = jax.device_get((training.metrics, training.updates_since))
        scores = jax.device_get(self.score(training)) if eval_due.any() else None
        lines = []
        for row in np.flatnonzero(line_due):
            line = {name: values[row].item() for name, values in counts.items()}
            line |= {name: (sums[row] / updates[row]).item() if updates[row] else None for name, sums in metrics.items()}
            if eval_due[row]:
                line |= {name: getattr(scores, name)[row].item() for name in ("win_rate", "return_mean", "length_mean")}
            lines.append(line | {"seconds": round(self.seconds, 3)} | devices.peak_bytes())
        self.check(lines)
        self.folder.append(lines)
        for log in self.logs:
            for line in lines:
                log(line)
        self.latest |= means(lines)
        return self.report(training)

    def check(self, lines: list[dict[str, Any]]) -> None:
        """Refuse to go on with numbers that are none."""
        for line in lines:
            if line["loss"] is not None and not math.isfinite(line["loss"]):
                raise RefilError(
                    f"the loss of seed {line['seed']} is {line['loss']} after {line['env_steps']} steps; "
                    f"what was saved before is intact in {self.folder.path}. Try a lower --lr than {self.loop.schedule.lr}"
                )

    def save(self, training: TrainState) -> None:
        """Begin to save everything, unless it is broken; the device meanwhile goes on with the original of this copy."""
        if not bool(jnp.isfinite(training.learner.parameters).all()):
            raise RefilError("a model holds numbers that are not finite; it is not saved, and what was saved before is intact")
        self.saving = self.threads.submit(self.write, self.copy(training), self.seconds, self.folder.metrics_bytes)

    def finish_saving(self) -> None:
        """Wait until what was begun is written, and hand on what went wrong."""
        if self.saving:
            self.saving.result()
        self.saving = None

    def write(self, training: TrainState, seconds: float, metrics_bytes: int) -> None:
        """Write all that training goes on from, after so many seconds and bytes of metrics, and the models."""
        models, seeds, whole = training.learner.model, np.asarray(training.seed).tolist(), None
        if self.loop.schedule.condense:
            condensed, left = self.condensed(training)
            training, whole = with_episodes(training, (condensed, left)), len(left.places)
        self.folder.save_models(models, seeds, self.experiment)  # first: where training is saved as done, so are its models
        self.folder.save(training, seconds, metrics_bytes, whole)

    def complete_models(self, training: TrainState) -> None:
        """Write the models of a finished run, if there are some that somebody has left away."""
        seeds = np.asarray(training.seed).tolist()
        if not set(seeds) <= set(self.folder.seeds):
            self.folder.save_models(training.learner.model, seeds, self.experiment)

    def condensed(self, training: TrainState) -> tuple[Condensed, Uncondensed]:
        """All episodes in little space, and those whole that would not come back to the last bit."""
        episodes = training.replay.trajectories
        condensed = compression.condense(self.loop.env, episodes)
        places = np.flatnonzero(self.differing(self.play_again(condensed, training.replay.inserted), episodes))
        # A few sizes only, since each is compiled for; some episodes are then kept twice.
        return condensed, self.leave(episodes, np.resize(places, -(-len(places) // WHOLE_AT_ONCE) * WHOLE_AT_ONCE))


def with_episodes(training: TrainState, episodes: PyTree) -> TrainState:
    """The same with its episodes in another form."""
    return eqx.tree_at(lambda each: each.replay.trajectories, training, episodes)


def score(loop_: Loop, training: TrainState) -> evaluation.Score:
    """A greedy evaluation of every seed's model as it is now."""
    keys = setup.derive_keys(training.seed, setup.EVALUATE, training.env_steps)
    return evaluation.greedy(loop_.env, training.learner.model, loop_.schedule.eval_episodes, keys)


def means(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers to watch, averaged over the seeds that have them."""
    values = {name: [line[name] for line in lines if line.get(name) is not None] for name in ("loss", "win_rate")}
    return {name: sum(found) / len(found) for name, found in values.items() if found}


@contextmanager
def stop_requests(minutes: float | None, tell: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Whether it is time to stop: after so many minutes, or on Ctrl-C or SIGTERM (a second one stops without saving)."""
    asked: list[int] = []
    end = time.monotonic() + 60 * minutes if minutes is not None else math.inf

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        tell("Stopping as soon as this can be saved; once more to stop without saving.")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked) or time.monotonic() > end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
