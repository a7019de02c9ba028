"""Block sizes of kernels."""

from refil.nn.kernels.blocks import is_power_of_two


def test_block_sizes_are_powers_of_two():
    assert [size for size in range(20) if is_power_of_two(size)] == [1, 2, 4, 8, 16]
