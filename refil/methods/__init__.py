"""Methods, one file each; the file's name is its name on the command line.

A file has `Config`, a frozen dataclass of options, and `build(config, spec) -> Method`.
"""

NEEDED = ("Config", "build")  # of a file of one's own
