"""Experiments, of the paper and others, one file each; the name of the file is the name of the experiment.

An experiment defines `runs() -> dict[str, RunConfig]`, the config of each run by its label, and `report(done, out)`, which
writes a figure or a table of finished runs (`done` maps labels to `RunDir`) into the folder `out` and returns its path.
`refil report` draws what exists, so a report should work without some of the runs. Experiments with the same label share a run
if they share a folder.
"""

import re
from pathlib import Path

from refil.errors import RefilError
from refil.storage import run_dir
from refil.storage.run_dir import RunDir

REQUIRED = ("runs", "report")  # names that an experiment file must define


def folder_name(label: str) -> str:
    """Return the name of the folder of a run with this label."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def with_more_seeds(run: RunDir) -> list[RunDir]:
    """Return a run and the runs of further seeds: folders next to it whose names are its own, `_seeds_` and anything."""
    more = [run_dir.open_run(path) for path in sorted(run.path.parent.glob(f"{run.path.name}_seeds_*"))]
    found: dict[int, RunDir] = {}
    for each in (run, *more):
        for seed in {line["seed"] for line in each.metrics()}:
            if found.setdefault(seed, each) is not each:
                raise RefilError(f"{found[seed].path} and {each.path} both have seed {seed}")
    return [run, *more]


def find_runs(folder: Path, labels: list[str]) -> dict[str, RunDir]:
    """Return those runs that exist in a folder, by their labels."""
    paths = {label: folder / folder_name(label) for label in labels}
    return {label: run_dir.open_run(path) for label, path in paths.items() if (path / run_dir.METRICS).exists()}
