"""The source of a Triton kernel while it is written: lines, variables, and the references that a kernel gets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

TYPES = {
    "float32": "tl.float32",
    "bfloat16": "tl.bfloat16",
    "float16": "tl.float16",
    "int32": "tl.int32",
    "int16": "tl.int16",
    "int8": "tl.int8",
    "uint32": "tl.uint32",
    "uint16": "tl.uint16",
    "uint8": "tl.uint8",
    "bool": "tl.int1",
}


class KernelError(Exception):
    """A kernel that cannot be translated or compiled. It is no `RefilError`, so that plain JAX replaces the kernel."""


@dataclass(frozen=True)
class Reference:
    """The block of an argument that a program sees: a pointer to its first element, its shape and its strides."""

    pointer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A variable of the Triton kernel, or a literal."""

    code: str
    shape: tuple[int, ...]
    dtype: np.dtype
    is_zero: bool = False  # the literal 0


@dataclass
class Source:
    """The lines of a Triton kernel, and the variables that are in use."""

    lines: list[str] = field(default_factory=list)
    indent: int = 1
    names: Iterator[int] = field(default_factory=count)

    def add(self, line: str) -> None:
        """Append a line."""
        self.lines.append("    " * self.indent + line)

    def assign(self, code: str, shape: tuple[int, ...], dtype: Any) -> Value:
        """Append an assignment to a new variable and return it."""
        name = f"v{next(self.names)}"
        self.add(f"{name} = {code}")
        return Value(name, tuple(shape), np.dtype(dtype))


def triton_type(dtype: Any) -> str:
    """Return Triton's name of a type."""
    name = np.dtype(dtype).name
    if name not in TYPES:
        raise KernelError(f"has values of type {name}; supported are {', '.join(TYPES)}")
    return TYPES[name]


def literal(value: Any, aval: Any) -> Value:
    """Return a number as a literal of a traced value's type."""
    number = np.asarray(value, aval.dtype).item()
    text = f'float("{number}")' if isinstance(number, float) and not np.isfinite(number) else repr(number)
    return Value(f"tl.cast({text}, {triton_type(aval.dtype)})", (), np.dtype(aval.dtype), is_zero=number == 0)


def constant(value: Any) -> Value:
    """Return a constant of a traced function."""
    if np.ndim(value):
        raise KernelError("contains a constant array; compute it in the kernel or pass it as an argument")
    return literal(value, np.asarray(value))


def expand_index(kept: Sequence[int], rank: int) -> str:
    """Return the index that adds the other axes of a result to a value, such as `[:, None]`."""
    return f"[{', '.join(':' if axis in kept else 'None' for axis in range(rank))}]"


def scaled(code: str, factor: int) -> str:
    """Return the code of a product with a constant."""
    return code if factor == 1 else f"{code} * {factor}"


def broadcast(value: Value, shape: tuple[int, ...]) -> str:
    """Return the code that broadcasts a value to a shape."""
    return value.code if value.shape == shape else f"tl.broadcast_to({value.code}, {tuple_literal(shape)})"


def tuple_literal(shape: Sequence[int]) -> str:
    """Return a shape as a tuple literal."""
    return f"({', '.join(map(str, shape))},)"
