"""Environments, one file or folder each; the file's name is the environment's name on the command line.

A file defines `Config`, a frozen dataclass of options, and `build(config) -> Env`. It may define
`DEFAULTS: refil.types.EnvDefaults`, the defaults of training options in this environment.
"""

KIND = "environment"  # name in error messages
REQUIRED = ("Config", "build")  # names that an environment file must define
