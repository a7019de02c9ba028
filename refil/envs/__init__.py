"""Environments, one file each; the file's name is its name on the command line.

A file has `Config`, a frozen dataclass of options, and `build(config) -> Env`. If the paper's settings for it are not
those of StarCraft it also has `DEFAULTS: refil.types.Defaults`.
"""

NEEDED = ("Config", "build")  # of a file of one's own
