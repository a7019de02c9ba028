"""Loads and stores of traced kernels: the pointers that an index into a reference selects."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from refil.kernels.source import KernelError, Reference, Source, Value, broadcast, expand_index, scaled, triton_type


def load(params: dict[str, Any], inputs: list[Any], aval: Any, source: Source) -> str:
    """Return the code of a load."""
    if "args_tree" in params:
        reference, indexers, mask, other = jax.tree.unflatten(params["args_tree"], inputs)
    else:
        reference, indexers, mask, other = inputs[0], jax.tree.unflatten(params["tree"], inputs[1:]), None, None
    pointer = _address(reference, indexers, source)
    if mask is None:
        return f"tl.load({pointer})"
    other = "0" if other is None else other.code
    return f"tl.load({pointer}, mask={broadcast(mask, aval.shape)}, other=tl.cast({other}, {triton_type(aval.dtype)}))"


def store(name: str, params: dict[str, Any], inputs: list[Any], source: Source) -> None:
    """Append a store."""
    if name == "masked_swap":
        reference, indexers, value, mask = jax.tree.unflatten(params["args_tree"], inputs)
    else:
        (reference, value), indexers, mask = inputs[:2], jax.tree.unflatten(params["tree"], inputs[2:]), None
    pointer = _address(reference, indexers, source)
    source.add(f"tl.store({pointer}, {value.code}{'' if mask is None else f', mask={broadcast(mask, value.shape)}'})")


def _address(reference: Reference, indexers: Sequence[Any], source: Source) -> str:
    """Return the pointers to the elements of a reference that an index selects."""
    if len(indexers) > 1:
        raise KernelError("indexes a reference twice; index it once")
    indices = indexers[0].indices if indexers else [slice(None)] * len(reference.shape)
    arrays = [each.shape for each in indices if isinstance(each, Value)]
    leading = max(map(len, arrays), default=0)  # axes of the result that index arrays select; slices select the others
    rank = leading + sum(not isinstance(each, Value) for each in indices)
    terms, axis = [reference.pointer], leading
    for index, size, stride in zip(indices, reference.shape, reference.strides, strict=True):
        if isinstance(index, Value):
            view = expand_index([*range(leading)], rank) if index.shape and rank > leading else ""
            terms.append(scaled(f"{index.code}{view}", stride))
            continue
        start, step, size = getattr(index, "start", None) or 0, getattr(index, "stride", 1), getattr(index, "size", size)
        offsets = scaled(f"tl.arange(0, {size}){expand_index([axis], rank) if rank > 1 else ''}", step)
        start = start.code if isinstance(start, Value) else start
        terms.append(scaled(f"({start} + {offsets})" if start else offsets, stride))
        axis += 1
    return source.assign(" + ".join(terms), (), np.int32).code
