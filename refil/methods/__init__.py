"""Methods, one file each; the name of the file is the name of the method.

A file exports `Config`, a frozen dataclass of options, and `build(config, spec) -> Method`. It may export `INFO`, its row in
the paper's table; `ALGORITHM`, the algorithm that trains it ("replay" by default; "onpolicy" needs an `OnPolicyMethod`); and
`COMMUNICATES = True` if agents exchange messages.
"""

from refil import plugins
from refil.types import MethodInfo

SUGGESTIONS = {"qmix": "qmix_attention", "vdn": "vdn_attention"}  # short names of the paper's methods
REQUIRED = ("Config", "build")  # names that a user's own file must export


def method_info(name: str) -> MethodInfo:
    """Return a method's row in the paper's table; a method without one is labeled by its name."""
    return getattr(plugins.load("refil.methods", name), "INFO", MethodInfo(name, "", ""))


def label(name: str) -> str:
    """Return the paper's name of a method."""
    return method_info(name).label
