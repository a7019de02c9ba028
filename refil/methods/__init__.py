"""Methods, one file each; the name of the file is the name of the method.

A file exports `Config`, a frozen dataclass of options, and `build(config, spec) -> Method`.
"""

NEEDED = ("Config", "build")  # names that a user's own file must export
