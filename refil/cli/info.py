"""Print versions, devices, and what is chosen for them: GPU kernels, precision, the cache of compiled programs."""

import json
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from refil import __version__, settings
from refil.cli import _advice

PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "equinox", "optax", "numpy", "triton")
OPTIONAL = ("matplotlib", "tensorboard", "wandb", "pandas")
KERNELS = {  # what each kernel computes, and the sizes that it supports
    "battle": "the eight ticks of a step; up to 128 units, with Pallas up to 32",
    "attention": "all views and heads at once; the numbers of entities and columns per head are powers of two",
    "GRU": "all timesteps at once; the size of the hidden state is a power of two",
    "UPDeT": "its memory through all timesteps; up to 31 entities, tokens of 16 or 32 columns",
    "UPDeT's attention": "all heads at once; tokens of 16 to 64 columns",
    "layer normalization": "its gradient; up to 512 columns, a power of two",
}


@dataclass(frozen=True)
class InfoArgs:
    """Options of the report."""

    json: bool = False  # Print JSON


def main(arguments: list[str]) -> None:
    """Print the report."""
    args = settings.from_command_line(InfoArgs, arguments, "refil info", __doc__)
    found = report()
    if args.json:
        print(json.dumps(found))
        return
    for title, value in found.items():
        if not isinstance(value, dict):
            print(f"{title}: {value}")
            continue
        print(f"{title}:")
        for name, text in value.items():
            print(f"  {name:<{max(map(len, value))}}  {text}")


def report() -> dict[str, Any]:
    """Return what is printed, as titles and lines."""
    import jax

    from refil import hardware
    from refil.training import cache, devices

    first, kernels, bfloat16 = hardware.device(), hardware.kernels(), hardware.bfloat16()
    capability = f", compute capability {first.capability[0]}.{first.capability[1]}" if first.capability else ""
    divided = "; a run divides its seeds among them, then the environments of each seed" if jax.device_count() > 1 else ""
    use = "on" if kernels.yes else "off"
    compiled = f", compiled by {hardware.compiler()}" if kernels.yes else ""
    return {
        "refil": __version__,
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in (*PACKAGES, *OPTIONAL)},
        "devices": f"{jax.device_count()} x {first.kind} ({first.platform}{capability}){divided}",
        "memory": f"{devices.memory_bytes() / 1e9:.1f} GB",
        "kernels": {"--kernels auto": f"{use}{compiled} ({_advice.as_commands(kernels.reason)})"}
        | {name: f"{use:<3}  {text}" for name, text in KERNELS.items()},
        "precision": {
            "--precision auto": f"{'bfloat16' if bfloat16.yes else 'float32'} ({bfloat16.reason})",
            "--precision tf32": "TF32" if bfloat16.yes else "the same as float32 here",
            "--precision bf16": "bfloat16" if bfloat16.yes else "bfloat16, but not faster than float32 here",
        },
        "compiled programs": str(cache.folder(jax.default_backend()) or "not cached"),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
