"""Pieces of Triton's language: literals, shapes and broadcasts."""

import jax
import numpy as np
import pytest

from refil.kernels import source
from refil.kernels.source import KernelError


def aval(dtype):
    return jax.ShapeDtypeStruct((), dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "code"),
    [
        (2, np.int32, "tl.cast(2, tl.int32)"),
        (0.5, np.float32, "tl.cast(0.5, tl.float32)"),
        (np.inf, np.float32, 'tl.cast(float("inf"), tl.float32)'),
        (True, np.bool_, "tl.cast(True, tl.int1)"),
    ],
)
def test_literals_have_the_type_of_the_traced_value(value, dtype, code):
    assert source.literal(value, aval(dtype)).code == code


def test_zero_is_known_so_that_offsets_can_leave_it_out():
    assert source.literal(0, aval(np.int32)).is_zero
    assert not source.literal(1, aval(np.int32)).is_zero


def test_an_index_adds_the_other_axes_of_a_result():
    assert source.expand_index([1], 3) == "[None, :, None]"
    assert source.tuple_literal((4,)) == "(4,)"
    assert source.scaled("x", 1) == "x"
    assert source.scaled("x", 3) == "x * 3"


def test_values_are_broadcast_only_where_shapes_differ():
    value = source.Value("x", (4, 1), np.dtype("float32"))
    assert source.broadcast(value, (4, 1)) == "x"
    assert source.broadcast(value, (4, 8)) == "tl.broadcast_to(x, (4, 8,))"


def test_assignments_are_indented_and_have_names_of_their_own():
    lines = source.Source()
    lines.indent += 1
    assert [lines.assign("1", (), np.int32).code, lines.assign("2", (), np.int32).code] == ["v0", "v1"]
    assert lines.lines == ["        v0 = 1", "        v1 = 2"]


def test_unknown_types_are_refused_with_the_supported_ones():
    with pytest.raises(KernelError, match=r"values of type float64; supported are float32"):
        source.triton_type(np.float64)
