"""Advice in errors: the library speaks of arguments and fields, the command line of commands and flags."""

import re

from refil.errors import RefilError

COMMANDS = {
    "resume=True": "'refil train --resume {run}'",
    "resuming the run": "'refil train --resume {run}'",
    "evaluating the run by task": "'refil evaluate {run} --by-task'",
    "training its config in another folder": "'refil train --config {run}/config.json --out DIR'",
    "trust=True": "--trust",
    "kernels='on'": "'--kernels on'",
    "reduce episodes": "reduce --episodes",
    "gpus=": "--gpus ",
    "tasks=": "--tasks ",
    "so draw_seed": "so --draw-seed",
    "the job option": "--slurm-options",
    "the address of a Ray cluster": "--ray",
}
PATTERN = re.compile("|".join(rf"(?<![\w./-]){re.escape(text)}" for text in COMMANDS))


def as_commands(text: str, run: object = None) -> str:
    """Return a text of the library with the commands and flags that do what it advises for a run."""
    return PATTERN.sub(lambda found: COMMANDS[found[0]].format(run="RUN" if run is None else run), text)


def error_text(error: RefilError) -> str:
    """Return the message of an error as the command line prints it."""
    return as_commands(str(error), error.run)
