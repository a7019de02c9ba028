"""Lack of memory: compiled programs say what they need before they run, and failures become errors that name an option."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax.errors import JaxRuntimeError

from refil.errors import RefilError

SIGNS = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")  # in errors of XLA


def check_program(compiled: Any, available: int, option: str) -> None:
    """Raise if a compiled program needs more memory than there is; a CPU would swap, or end the process, instead of failing."""
    if not hasattr(compiled, "memory_analysis") or (found := compiled.memory_analysis()) is None:
        return
    needed = found.temp_size_in_bytes + found.output_size_in_bytes
    if needed > available:
        size = f"{needed / 1e9:,.1f} GB of memory where {available / 1e9:,.1f} GB are available"
        raise RefilError(f"the compiled program needs {size}; reduce {option}")


@contextmanager
def explained(option: str) -> Iterator[None]:
    """Turn a lack of memory into an error that names the option to blame."""
    try:
        yield
    except (JaxRuntimeError, MemoryError) as error:
        if isinstance(error, JaxRuntimeError) and not any(sign in str(error) for sign in SIGNS):
            raise
        raise RefilError(f"there is not enough memory; reduce {option}") from error
