"""Operations of traced kernels, without those on references, as expressions in Triton's language."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from refil.kernels.source import KernelError, Value, broadcast, expand_index, triton_type, tuple_literal

BINARY = {
    "add": "{0} + {1}",
    "add_any": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "rem": "{0} % {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "max": "tl.maximum({0}, {1})",
    "min": "tl.minimum({0}, {1})",
    "atan2": "libdevice.atan2({0}, {1})",
    "shift_left": "{0} << {1}",
}
# CUDA's tanh branches, which computes the elements of a vector one after another. For small values 1 - 2 / (1 + exp(2x)) loses
# digits, so a Taylor series replaces it.
TANH = (
    "tl.where(tl.abs({0}) < 0.3,"
    " {0} * (1.0 + {0} * {0} * (-1 / 3 + {0} * {0} * (2 / 15 + {0} * {0} * (-17 / 315 + {0} * {0} * (62 / 2835))))),"
    " 1.0 - 2.0 / (1.0 + tl.exp(2.0 * {0})))"
)
UNARY = {
    "neg": "-{0}",
    "not": "~{0}",
    "abs": "tl.abs({0})",
    "square": "{0} * {0}",
    "exp": "tl.exp({0})",
    "log": "tl.log({0})",
    "sqrt": "libdevice.sqrt({0})",
    "rsqrt": "libdevice.rsqrt({0})",
    "sin": "libdevice.sin({0})",
    "cos": "libdevice.cos({0})",
    "tanh": TANH,
    "floor": "tl.floor({0})",
    "population_count": "libdevice.popc({0})",
    "ceil": "tl.ceil({0})",
    "logistic": "1.0 / (1.0 + tl.exp(-{0}))",
    "sign": "tl.where({0} > 0, 1, tl.where({0} < 0, -1, 0))",
    "stop_gradient": "{0}",
    "copy": "{0}",
}
REDUCTIONS = {
    "reduce_sum": "tl.sum",
    "reduce_max": "tl.max",
    "reduce_min": "tl.min",
    "argmax": "tl.argmax",
    "argmin": "tl.argmin",
}

CALLS = {"gather_rows": "tl.gather({0}, {1}, axis=0)"}  # functions with an operation of their own in Triton's language


def expression(name: str, params: dict[str, Any], inputs: list[Any], aval: Any) -> str:
    """Return the code of an operation with one result."""
    special = SPECIAL.get(name)
    if special is not None:
        return special(params, inputs, aval)
    codes = [each.code for each in inputs]
    if name in BINARY:
        codes = [each.code if each.shape in ((), aval.shape) else broadcast(each, aval.shape) for each in inputs]
        return BINARY[name].format(*codes)
    if name in UNARY:
        return f"tl.cast({UNARY[name].format(*codes)}, {triton_type(aval.dtype)})"
    if name in REDUCTIONS:
        code = codes[0]
        for axis in sorted(params["axes"], reverse=True):
            code = f"{REDUCTIONS[name]}({code}, axis={axis})"
        return f"tl.cast({code}, {triton_type(aval.dtype)})"
    raise KernelError(f"uses {name}, which is not supported")


def _convert(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    value = inputs[0]
    if aval.dtype == jnp.bool_:
        return f"{value.code} != 0"
    return value.code if aval.dtype == value.dtype else f"tl.cast({value.code}, {triton_type(aval.dtype)})"


def _broadcast_in_dim(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    value, kept = inputs[0], params["broadcast_dimensions"]
    if not aval.shape:
        return value.code
    if not value.shape:
        return f"tl.full({tuple_literal(aval.shape)}, {value.code}, {triton_type(aval.dtype)})"
    code, shape = value.code, [1] * len(aval.shape)
    for axis, result_axis in enumerate(kept):
        shape[result_axis] = value.shape[axis]
    if len(value.shape) != len(aval.shape):
        code = f"{code}{expand_index(kept, len(aval.shape))}"
    return broadcast(Value(code, tuple(shape), value.dtype), aval.shape)


def _reshape(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    if not aval.shape:
        code = inputs[0].code
        for _ in inputs[0].shape:
            code = f"tl.sum({code}, axis=0)"  # of a single element
        return code
    return f"tl.reshape({inputs[0].code}, {tuple_literal(aval.shape)})"


def _select(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    chosen, if_false, if_true = (broadcast(each, aval.shape) if each.shape else each.code for each in inputs)
    return f"tl.where({chosen}, {if_true}, {if_false})"


def _iota(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    axis, rank = params["dimension"], len(aval.shape)
    code = f"tl.arange(0, {aval.shape[axis]})"
    if rank > 1:
        code += expand_index([axis], rank)
    shape = tuple(size if each == axis else 1 for each, size in enumerate(aval.shape))
    return f"tl.cast({broadcast(Value(code, shape, np.dtype('int32')), aval.shape)}, {triton_type(aval.dtype)})"


def _division(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    left, right = (each.code if each.shape in ((), aval.shape) else broadcast(each, aval.shape) for each in inputs)
    return f"{left} {'/' if jnp.issubdtype(aval.dtype, jnp.floating) else '//'} {right}"


def _dot(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    ((left_axis,), (right_axis,)), batch = params["dimension_numbers"]
    if tuple(map(len, batch)) != (0, 0) or {len(each.shape) for each in inputs} != {2}:
        raise KernelError("multiplies arrays that are not two matrices")
    left = inputs[0].code if left_axis == 1 else f"tl.trans({inputs[0].code})"
    right = inputs[1].code if right_axis == 0 else f"tl.trans({inputs[1].code})"
    exact = _is_exact(params["precision"]) and inputs[0].dtype == np.float32
    precision = ', input_precision="ieee"' if exact else ""
    return f"tl.cast(tl.dot({left}, {right}{precision}), {triton_type(aval.dtype)})"


def _is_exact(precision: Any) -> bool:
    """Return whether products must not be rounded to TF32."""
    if isinstance(precision, tuple):
        return all(each == jax.lax.Precision.HIGHEST for each in precision)
    return precision in (jax.lax.Precision.HIGHEST, jax.lax.DotAlgorithmPreset.F32_F32_F32)


def _integer_power(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    if params["y"] < 1:
        raise KernelError(f"raises a value to the power of {params['y']}; supported are positive integers")
    return " * ".join([inputs[0].code] * params["y"])


def _clamp(params: dict[str, Any], inputs: list[Value], aval: Any) -> str:
    low, value, high = (each.code for each in inputs)
    return f"tl.minimum(tl.maximum({low}, {value}), {high})"


SPECIAL: dict[str, Callable[[dict[str, Any], list[Any], Any], str]] = {
    "convert_element_type": _convert,
    "broadcast_in_dim": _broadcast_in_dim,
    "broadcast_to": lambda params, inputs, aval: broadcast(inputs[0], aval.shape),
    "reshape": _reshape,
    "squeeze": _reshape,
    "transpose": lambda params, inputs, aval: f"tl.permute({inputs[0].code}, {tuple_literal(params['permutation'])})",
    "select_n": _select,
    "iota": _iota,
    "div": _division,
    "dot_general": _dot,
    "integer_pow": _integer_power,
    "clamp": _clamp,
}
