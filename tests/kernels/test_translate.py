"""Traced kernels become Triton's language operation by operation, or are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.kernels.source import Reference, Source, Value
from refil.kernels.translate import index_values, translate
from tests.kernels.example import assert_translates, refuses, sized, source_of

VALUES = np.linspace(-2, 2, 16, dtype=np.float32)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops_with_several_values(count):
    def fibonacci(values):
        return jax.lax.fori_loop(0, count, lambda _, pair: (pair[1], pair[0] + pair[1]), (values, 2 * values))[0]

    assert_translates(fibonacci, VALUES)


def test_loops_that_exchange_their_values():
    assert_translates(lambda values: jax.lax.fori_loop(0, 3, lambda _, pair: pair[::-1], (values, -values))[0], VALUES)


def test_the_number_of_the_iteration_can_be_used():
    assert_translates(lambda values: jax.lax.fori_loop(0, 4, lambda count, total: total + count * values, values), VALUES)


@pytest.mark.parametrize("first", [0, 3, 20])
def test_the_number_of_iterations_can_be_computed(first):
    def double_for_every_negative_number(values):
        return jax.lax.fori_loop(first, (values < 0).sum(), lambda count, total: total + count * values, values)

    assert_translates(double_for_every_negative_number, VALUES)


def test_loops_that_end_on_a_condition_are_refused():
    def kernel(inputs, outputs):
        outputs[...] = jax.lax.while_loop(lambda values: values.sum() < 9, lambda values: 2 * values, inputs[...])

    refuses(kernel, (16,), "ends on a condition; use jax.lax.fori_loop")


@pytest.mark.parametrize("limit", [-1.0, 1.0])
def test_conditions_compute_one_of_two_branches(limit):
    def branch(values):
        added, kept = jax.lax.cond(values.max() > limit, lambda: (values + 1, values), lambda: (values, 3 * values))
        return added * kept

    assert_translates(branch, VALUES - 1.5)


def test_functions_that_are_compiled_or_have_their_own_gradient_are_inlined():
    assert_translates(lambda values: jax.jit(jax.nn.relu)(values) + jax.nn.silu(values), VALUES)


def test_operations_without_use_are_left_out():
    def kernel(inputs, outputs):
        jnp.exp(inputs[...])
        outputs[...] = inputs[...]

    assert "tl.exp" not in source_of(kernel, sized((16,)))


def test_what_cannot_be_translated_is_refused_by_name():
    def sort(inputs, outputs):
        outputs[...] = jnp.sort(inputs[...])

    def constant(inputs, outputs):
        outputs[...] = inputs[...] + np.arange(16, dtype=np.float32)

    def scan(inputs, outputs):
        outputs[...] = jax.lax.scan(lambda total, each: (total + each, None), 0.0, inputs[...])[0] * inputs[...]

    for kernel, words in ((sort, "uses sort"), (constant, "constant array"), (scan, "use jax.lax.fori_loop")):
        refuses(kernel, (16,), words)


def test_index_maps_become_expressions_of_the_index_in_the_grid():
    lines, index = Source(), Value("index", (), np.dtype("int32"))
    row, zero = index_values(lambda row: (2 * row, 0), [index], lines)
    assert lines.lines == ["    v0 = tl.cast(2, tl.int32) * index"]
    assert (row.code, row.is_zero, zero.is_zero) == ("v0", False, True)


def test_every_operation_is_a_line():
    traced = jax.make_jaxpr(lambda *given: (lambda ref: ref.__setitem__(..., 2 * ref[...]))(jax.new_ref(given[0])))(VALUES)
    lines = Source()
    translate(traced, [Reference("p", (16,), (1,))], lines)
    operations = [line.strip() for line in lines.lines]
    assert operations[1::2] == ["v1 = tl.load(v0)", "v3 = p + tl.arange(0, 16)"]
    assert operations[2::2] == ["v2 = tl.cast(2.0, tl.float32) * v1", "tl.store(v3, v2)"]
