"""Types of arguments and shapes of arrays are checked in tests, and only there."""

from jaxtyping import install_import_hook

hook = install_import_hook("refil", "beartype.beartype")
