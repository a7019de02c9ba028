"""Figures, one file each; the file's name is its name on the command line. A file has
`draw(lines) -> Figure`, and `table(lines)`, which gives in words what is drawn, line by line."""

NEEDED = ("draw", "table")  # of a file of one's own
