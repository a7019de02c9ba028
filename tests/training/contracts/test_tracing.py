"""Shapes of what users' functions return, and differences of shapes in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.errors import RefilError
from refil.training.contracts.tracing import check_array, difference, shapes, trace


def test_shapes_are_found_without_computing_anything():
    found = trace("mine()", lambda x: {"a": x @ x, "b": 1}, jax.ShapeDtypeStruct((10**6, 10**6), jnp.float32))
    assert found["a"].shape == (10**6, 10**6)
    assert found["b"].dtype == jnp.int32


@pytest.mark.parametrize("value", ["text", np.array(["a"]), object()])
def test_values_that_are_no_arrays_are_named(value):
    with pytest.raises(RefilError, match=r"mine\(\) returned .* in \['a'\]; JAX needs arrays there"):
        trace("mine()", lambda: {"a": value})


def test_differences_name_the_array_and_both_types():
    one = shapes({"x": jnp.zeros(3), "y": jnp.zeros(2, int)})
    assert difference(one, one) is None
    assert difference(shapes({"x": jnp.zeros(3, int), "y": jnp.zeros(2, int)}), one) == (
        "int32 (3,) in ['x'] instead of float32 (3,)"
    )
    assert (
        difference(shapes([jnp.zeros(3)]), one)
        == "a list of 1 with 1 array ([0]) instead of a dict with 2 arrays (['x'], ['y'])"
    )


def test_axes_are_compared_by_name():
    leaf = jax.ShapeDtypeStruct((4, 3), jnp.bool_)
    axes = ("agents", 4), ("actions", 3)
    check_array("observe() gives available", leaf, axes, jnp.bool_)
    with pytest.raises(RefilError, match=r"^observe\(\) gives available for 3 actions, spec.actions is 5$"):
        check_array("observe() gives available", leaf, (axes[0], ("actions", 5)), jnp.bool_)
    with pytest.raises(RefilError, match=r"with shape \(4, 3\); it must be \[agents\] = \(4,\)"):
        check_array("it", leaf, axes[:1], jnp.bool_)
    with pytest.raises(RefilError, match="of type bool; it must be of a floating-point type"):
        check_array("it", leaf, axes, jnp.floating)
