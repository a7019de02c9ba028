"""GPU code paths on machines without a GPU."""

from functools import partial

import jax

from refil import hardware
from refil.nn.kernels import attention, gru, layer_norm


def program_for_gpu(function, *arguments) -> str:
    """Return the program that JAX would compile for a GPU."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def pretend_backend(monkeypatch, backend: str) -> None:
    """From now on, JAX seems to run on this backend."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    hardware.on_gpu.cache_clear()  # what JAX has answered before


def as_on_a_gpu(monkeypatch) -> set[str]:
    """From now on take the code paths of a GPU, with interpreted kernels for all sizes.

    The returned set collects the names of the kernels that have been called.
    """
    called = set()

    def recorded(name, kernel):
        def interpreted(*arguments):
            called.add(name)
            return kernel(*arguments)

        return interpreted

    attend = attention.attend
    kernels = {
        (attention, "attend"): lambda *arguments: attend(*arguments[:-1], True),
        (gru, "gru_scan"): partial(gru.gru_scan, interpret=True),
        (gru, "gru_scan_with_previous"): partial(gru.gru_scan_with_previous, interpret=True),
        (gru, "gru_scan_backward"): partial(gru.gru_scan_backward, interpret=True),
        (layer_norm, "layer_norm_backward"): partial(layer_norm.layer_norm_backward, interpret=True),
    }
    pretend_backend(monkeypatch, "gpu")
    for (module, name), kernel in kernels.items():
        monkeypatch.setattr(module, name, recorded(name, kernel))
        monkeypatch.setattr(module, "fits", lambda *sizes: True)
    return called
