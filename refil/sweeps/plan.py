"""The runs of a sweep, each a label, a config and a folder; whether they are finished, and how they are prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from refil.errors import RefilError
from refil.experiments import folder_name
from refil.storage import run_dir
from refil.training import config as configs
from refil.training.config import RunConfig

ERROR, LOG = "error.txt", "log.txt"


@dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep; `flag` translates the path of an option for errors."""

    label: str
    config: RunConfig
    path: Path
    flag: Callable[[str], str] = str

    @property
    def is_finished(self) -> bool:
        """Whether all seeds have made their steps."""
        if not (self.path / run_dir.METRICS).exists():
            return False
        run = run_dir.open_run(self.path)
        if not run.is_complete:  # lines after the last checkpoint do not count, and may be damaged
            return False
        steps = {line["seed"]: line["env_steps"] for line in run.metrics()}
        return len(steps) == self.config.train.seeds and min(steps.values()) >= self.config.train.steps

    @property
    def hashes(self) -> list[str]:
        """The SHA-256 of the users' files that the run needs: no other code may run for it."""
        return [sha256 for _, sha256 in self.config.names().values() if sha256]

    def check(self) -> None:
        """Raise if the folder holds a run with other options, or one that is damaged."""
        if not (self.path / run_dir.CONFIG).exists():
            return
        differing = run_dir.open_run(self.path).differences(self.config)
        allowed = _may_differ_when_finished if self.is_finished else configs.is_changeable
        # A run of version 0.2.0 has no hash of its code; `prepare` writes it.
        names = sorted(self.flag(name) for name in differing if not (allowed(name) or name.endswith(".sha256")))
        if names and run_dir.has_learned(self.path):
            raise RefilError(f"{self.path} holds a run with other options: {', '.join(names)}; choose another folder")

    def prepare(self) -> None:
        """Create the folder, or bring its config up to date; what was trained is kept."""
        self.check()
        if not (self.path / run_dir.CONFIG).exists() or not run_dir.has_learned(self.path):
            run_dir.create(self.path, self.config)
        elif run_dir.open_run(self.path).differences(self.config):
            run_dir.open_run(self.path).write_config(self.config)


def plan(runs: dict[str, RunConfig], out: Path, flag: Callable[[RunConfig, str], str]) -> list[PlannedRun]:
    """Return the runs of an experiment with their folders; raise if two of them would share one."""
    folders = [folder_name(label) for label in runs]
    for label, name in zip(runs, folders, strict=True):
        if not name or folders.count(name) > 1:
            raise RefilError(f"the label {label!r} must differ from the others in its letters and digits (a-z, 0-9)")

    def flag_of(config: RunConfig) -> Callable[[str], str]:
        return lambda path: flag(config, path)

    return [PlannedRun(label, config, out / folder_name(label), flag_of(config)) for label, config in runs.items()]


def _may_differ_when_finished(name: str) -> bool:
    # A finished run of another length is another curve, whereas packing does not change what is learned.
    return name == "algorithm.pack" or name.startswith("output.")
