"""Parameters of which `make test` runs only a few, and `make test-slow` the others."""

import pytest


def all_but(fast: tuple, values) -> list:
    """Mark all values but the fast ones as slow."""
    return [value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values]
