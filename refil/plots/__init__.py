"""Figures, one file each; the name of the file is the name of the figure.

A figure defines `draw(curves) -> Figure` and `table(curves)`, which yields the same as lines of Markdown; `curves` maps each
label to the runs (`RunDir`) whose seeds form one curve.
"""

NEEDED = ("draw", "table")  # names that a figure file must define
KIND = "figure"
