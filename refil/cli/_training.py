"""Training from the command line: with a progress bar, loggers, and signals that stop it after a save."""

import math
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from refil.cli import _flags, _signals
from refil.errors import RefilError
from refil.storage import loggers
from refil.storage.progress import ProgressBar
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig
from refil.training.setup import Setup

MANY_ENVS = 256  # environments of an on-policy run that is meant for a GPU
ON_CPU = (
    "There is no GPU, and these settings are for one. On a CPU start smaller: add --envs 64 --minibatches 4 --method.size 64"
    " --method.memory 64 --steps 1000000, or run 'make train', which takes three minutes."
)
STOPPING = "Stopping after the next save; press Ctrl-C again to stop without saving."


def check(config: RunConfig) -> Setup:
    """Build a run; raise if that fails or if it needs more memory than there is, before anything is written."""
    from refil import hardware
    from refil.training import devices

    with _flags.flags_in_errors(config):
        config.configure()
        hardware.check(config.train.kernels)
        if config.output.replay and not hasattr(config.build_env(), "scene"):
            raise RefilError(f"output.replay needs an environment that can be shown; {config.env.name} has no scene(state)")
        setup, algorithm = config.build(dry_run=True), config.algorithm_module()
        devices.check_device_memory(partial(algorithm.required_bytes, setup), devices.devices_for(algorithm, setup))
    return setup


def run_training(config: RunConfig, run: RunDir, resume: bool) -> bool:
    """Train until all steps are done (True) or the user or the time limit stops it (False)."""
    from refil.training import trainer

    with ExitStack() as stack:
        stack.enter_context(_flags.flags_in_errors(config))
        config.configure()
        opened = loggers.open_loggers(config, run.path, stack)
        bar = stack.enter_context(ProgressBar(config.train.steps))
        again = f"start again with: refil train --resume {shlex.quote(str(run.path))}"
        should_stop = stack.enter_context(graceful_shutdown(config.output.stop_after, bar.message, again))
        finished = trainer.train(config, run, resume, should_stop=should_stop, progress=bar, loggers=opened).finished
        if bar.steps is not None:
            bar.log("  ".join(bar.lines()))  # where nothing is live, the last line says where training ended
        return finished


def hint(config: RunConfig) -> str | None:
    """Return advice about settings that are too large for this machine."""
    from refil import hardware
    from refil.training import config as configs

    on_policy = configs.algorithm_name(config.method.name, config.method.sha256) == "onpolicy"
    return ON_CPU if on_policy and config.train.envs >= MANY_ENVS and not hardware.on_gpu() else None


@contextmanager
def graceful_shutdown(minutes: float | None, message: Callable[[str], None], again: str = "") -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop: after the given minutes, or on Ctrl-C, SIGTERM or SIGHUP.

    Before it is called for the first time, while programs compile, there is nothing to save and a signal ends the process. So
    does a second Ctrl-C or SIGTERM at any time, without saving.
    """
    shutdown = _Shutdown(minutes, message, again)
    with _signals.watched(shutdown.react):
        yield shutdown.should_stop


class _Shutdown:
    def __init__(self, minutes: float | None, message: Callable[[str], None], again: str) -> None:
        self.deadline = time.monotonic() + 60 * minutes if minutes is not None else math.inf
        self.message, self.again = message, again
        self.learning = self.requested = False
        self.impatient = 0

    def should_stop(self) -> bool:
        self.learning = True
        return self.requested or time.monotonic() > self.deadline

    def react(self, number: int) -> None:
        if not self.learning:
            _signals.stop("; ".join(filter(None, ["stopped before the first step", self.again])))
        if number != signal.SIGHUP:  # a terminal that is closed may send several
            self.impatient += 1
        if self.impatient > 1:
            _signals.stop("stopped without saving")
        if not self.requested:
            self.requested = True
            self.message(STOPPING)
