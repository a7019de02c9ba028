"""Block sizes of kernels."""

MIN_BLOCK = 16  # fewest rows and columns that GPU matrix units multiply


def is_power_of_two(size: int) -> bool:
    """Return whether Triton accepts this block size."""
    return size > 0 and size & (size - 1) == 0
