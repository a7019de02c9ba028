"""Triton's language in NumPy, as far as translated kernels use it: one program after another on a CPU."""

from dataclasses import dataclass
from math import prod
from types import SimpleNamespace

import jax
import ml_dtypes
import numpy as np

from refil import hardware
from refil.kernels import launch
from refil.kernels.program import Kernel


@dataclass
class Pointer:
    """Places in an array that is seen as flat."""

    array: np.ndarray
    offsets: np.ndarray | int = 0

    def __add__(self, offset):
        return Pointer(self.array, self.offsets + offset)


def load(pointer, mask=None, other=None):
    if mask is None:
        return pointer.array[pointer.offsets]
    return np.where(mask, pointer.array[np.where(mask, pointer.offsets, 0)], other)


def store(pointer, values, mask=None):
    offsets, values = np.broadcast_arrays(pointer.offsets, values)
    chosen = np.ones(offsets.shape, bool) if mask is None else np.broadcast_to(mask, offsets.shape)
    pointer.array[offsets[chosen]] = values[chosen]


def dot(left, right, input_precision=None):
    assert min(*left.shape, *right.shape) >= 16, "the matrix units take no smaller blocks"
    return np.asarray(left, np.float32) @ np.asarray(right, np.float32)


def power_of_two(first, last):
    assert (last - first) & (last - first - 1) == 0, "Triton's ranges have a power of two elements"
    return np.arange(first, last, dtype=np.int32)


LANGUAGE = SimpleNamespace(
    **{name: np.dtype(name) for name in ("float32", "int32", "int16", "int8", "uint32", "uint16", "uint8")},
    bfloat16=np.dtype(ml_dtypes.bfloat16),
    int1=np.dtype(bool),
    cast=lambda value, dtype: np.asarray(value).astype(dtype)[()],
    full=lambda shape, value, dtype: np.full(shape, value, dtype),
    arange=power_of_two,
    broadcast_to=np.broadcast_to,
    reshape=np.reshape,
    permute=np.transpose,
    trans=np.transpose,
    where=np.where,
    maximum=np.maximum,
    minimum=np.minimum,
    abs=np.abs,
    exp=np.exp,
    log=np.log,
    floor=np.floor,
    ceil=np.ceil,
    sum=np.sum,
    max=np.max,
    min=np.min,
    argmin=np.argmin,
    argmax=np.argmax,
    load=load,
    store=store,
    dot=dot,
    gather=np.take_along_axis,
)
LIBDEVICE = SimpleNamespace(
    sqrt=np.sqrt,
    rsqrt=lambda value: 1 / np.sqrt(value),
    sin=np.sin,
    cos=np.cos,
    atan2=np.arctan2,
    popc=lambda value: np.bitwise_count(np.asarray(value).view(np.uint32)),
)


def run_kernel(kernel: Kernel, arrays) -> tuple[jax.Array, ...]:
    """Stand in for `launch.launch`: run the translated source for every point of the grid."""
    text = kernel.triton_source(arrays)

    def run(*arrays):
        inputs = [np.array(leaf).reshape(-1) for leaf in arrays]
        outputs = [np.zeros(prod(each.shape), each.dtype) for each in kernel.out_shape]
        number = [0]
        namespace = {"tl": SimpleNamespace(**vars(LANGUAGE), program_id=lambda axis: number[0]), "libdevice": LIBDEVICE}
        exec(compile(text, kernel.name, "exec"), namespace)
        for number[0] in range(prod(kernel.grid)):
            namespace[kernel.name](*map(Pointer, [*inputs, *outputs]))
        return tuple(leaf.reshape(each.shape) for leaf, each in zip(outputs, kernel.out_shape, strict=True))

    return jax.pure_callback(run, kernel.out_shape, *arrays)


def use(monkeypatch) -> list[str]:
    """From now on kernels are translated and run in NumPy; the returned list collects their names."""
    names = []

    def recorded(kernel, arrays):
        names.append(kernel.name)
        return run_kernel(kernel, arrays)

    monkeypatch.setattr(hardware, "compiler", lambda: "Triton")
    monkeypatch.setattr(launch, "launch", recorded)
    return names
