"""Experiments of the paper, one file each; the file's name is its name on the command line.

A file has `planned() -> dict[str, Experiment]`, from the label of each run to what it trains, and `conclude(done, out)`,
which makes a figure or a table of the finished runs and says where it is.
"""

NEEDED = ("planned", "conclude")  # of a file of one's own
