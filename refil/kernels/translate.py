"""Translate a kernel that is written in JAX, with references to blocks of its arguments, into the source of a Triton kernel.

JAX traces the kernel into a list of primitive operations. Each becomes one line of Triton's language on variables of the same
shape and type, so that the translated kernel computes what the traced one says, in the same order. A primitive that is not in
`operations.py` is refused by its name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from refil.kernels import load_store
from refil.kernels.operations import CALLS, expression
from refil.kernels.source import KernelError, Reference, Source, Value, constant, literal

INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}


def translate(traced: Any, references: Sequence[Reference], source: Source) -> None:
    """Append the operations of a traced kernel, whose arguments become references."""
    _run(traced.jaxpr, list(references), source, [constant(each) for each in traced.consts])


def index_values(index_map: Callable[..., Any], grid_indices: Sequence[Value], source: Source) -> list[Value]:
    """Append the operations of a block's index map and return its results."""
    traced = jax.make_jaxpr(lambda *given: tuple(map(jnp.int32, index_map(*given))))(*[jnp.int32(0)] * len(grid_indices))
    return _run(traced.jaxpr, list(grid_indices), source, [constant(each) for each in traced.consts])


def _run(jaxpr: Any, arguments: Sequence[Any], source: Source, consts: Sequence[Any] = ()) -> list[Any]:
    """Append the operations of a jaxpr and return its results."""
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def read(atom: Any) -> Any:
        return literal(atom.val, atom.aval) if hasattr(atom, "val") else known[atom]

    for equation in _needed(jaxpr):
        results = _operation(equation, [read(atom) for atom in equation.invars], source)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """Return the operations that write to a reference or on which a result depends."""
    needed, kept = {atom for atom in jaxpr.outvars if not hasattr(atom, "val")}, []
    for equation in reversed(jaxpr.eqns):
        writes = bool(equation.effects) and equation.primitive.name not in ("get", "masked_load")
        if writes or not needed.isdisjoint(equation.outvars):
            needed.update(atom for atom in equation.invars if not hasattr(atom, "val"))
            kept.append(equation)
    return kept[::-1]


def _operation(equation: Any, inputs: list[Any], source: Source) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if params.get("name") in CALLS:
        aval, codes = equation.outvars[0].aval, [each.code for each in inputs]
        return [source.assign(CALLS[params["name"]].format(*codes), aval.shape, aval.dtype)]
    if name in INLINED:
        inner = params[INLINED[name]]
        return _run(getattr(inner, "jaxpr", inner), inputs, source, [constant(each) for each in getattr(inner, "consts", ())])
    if name == "new_ref":
        return inputs  # an argument of the kernel
    if name == "scan":
        return _loop(equation, inputs, source)
    if name == "cond":
        return _branch(equation, inputs, source)
    if name == "while":
        return _counted_loop(equation, inputs, source)
    if name in ("swap", "masked_swap"):
        return [load_store.store(name, params, inputs, source)]
    if len(equation.outvars) != 1:
        raise KernelError(f"uses {name}, which is not supported")
    aval = equation.outvars[0].aval
    is_load = name in ("get", "masked_load")
    code = load_store.load(params, inputs, aval, source) if is_load else expression(name, params, inputs, aval)
    return [source.assign(code, aval.shape, aval.dtype)]


def _branch(equation: Any, inputs: list[Any], source: Source) -> list[Value]:
    """Append a condition with two branches."""
    condition, *arguments = inputs
    source.add(f"if {condition.code} != 0:")
    for branch, code in zip(equation.params["branches"][::-1], ("", "else:"), strict=True):
        if code:
            source.add(code)
        source.indent += 1
        results = _run(branch.jaxpr, arguments, source, [constant(each) for each in branch.consts])
        if not code:
            after = [source.assign(each.code, each.shape, each.dtype) for each in results]
        else:
            for variable, value in zip(after, results, strict=True):
                source.add(f"{variable.code} = {value.code}")
        source.indent -= 1
    return after


def _loop(equation: Any, inputs: list[Any], source: Source) -> list[Value]:
    """Append a `fori_loop`: a scan that carries values and has no sequences."""
    body = equation.params["jaxpr"]
    outside, inside = ((*each.invars, *each.outvars) for each in (equation, body.jaxpr))
    if any(one.aval.shape != other.aval.shape for one, other in zip(outside, inside, strict=True)):
        raise KernelError("scans over an array; use jax.lax.fori_loop")
    fixed = len(inputs) - len(equation.outvars)
    return _repeat(body, inputs[:fixed], inputs[fixed:], str(equation.params["length"]), source)


def _counted_loop(equation: Any, inputs: list[Any], source: Source) -> list[Value]:
    """Append a loop whose number of iterations is computed, as `jax.lax.fori_loop` makes it: while first < last."""
    params = equation.params
    tested, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"]
    consts, carried = inputs[: params["body_nconsts"]], inputs[params["body_nconsts"] :]
    counts = [each.primitive.name for each in tested.eqns] == ["lt"] and tested.eqns[0].invars == tested.invars[:2]
    if params["cond_nconsts"] or not counts or body.jaxpr.outvars[1] is not body.jaxpr.invars[len(consts) + 1]:
        raise KernelError("has a loop that ends on a condition; use jax.lax.fori_loop")
    return _repeat(body, consts, carried, f"{carried[1].code} - {carried[0].code}", source)


def _repeat(body: Any, consts: Sequence[Any], carried: Sequence[Any], times: str, source: Source) -> list[Value]:
    """Append a loop, and return what it carries."""
    state = [source.assign(each.code, each.shape, each.dtype) for each in carried]
    source.add(f"for i{next(source.names)} in range({times}):")
    source.indent += 1
    results = _run(body.jaxpr, [*consts, *state], source, [constant(each) for each in body.consts])
    after = [source.assign(each.code, each.shape, each.dtype) for each in results]
    for variable, value in zip(state, after, strict=True):
        source.add(f"{variable.code} = {value.code}")
    if not state:
        source.add("pass")
    source.indent -= 1
    return state
