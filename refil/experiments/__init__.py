"""Experiments of the paper, one file each; the name of the file is the name of the experiment.

An experiment defines `runs() -> dict[str, RunConfig]`, the config of each run by its label, and `report(done, out)`, which
writes a figure or a table of the finished runs (`done` maps labels to `RunDir`) into the folder `out` and returns its path.
"""

NEEDED = ("runs", "report")  # names that an experiment file must define
