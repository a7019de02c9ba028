"""Experiments of the paper, one file each; the file's name is its name on the command line.

A file has `runs() -> dict[str, Experiment]`, from the label of each run in the figure to what it trains, and `FIGURE`,
the name of the plot that shows them.
"""
