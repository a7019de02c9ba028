"""What a GPU does, on a machine that has none."""

from functools import partial

import jax

from refil.nn.kernels import attention, gru


def program_for_gpu(function, *given) -> str:
    """What JAX would have compiled."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
        return jax.jit(function).trace(*given).lower(lowering_platforms=("cuda",)).as_text()


def as_on_a_gpu(monkeypatch) -> set[str]:
    """From now on everything is worked out as on a GPU, with kernels whatever the sizes, but interpreted.

    The names of the kernels that have been called come into the set.
    """
    called = set()

    def noted(name, kernel):
        def interpreted(*given):
            called.add(name)
            return kernel(*given)

        return interpreted

    attend = attention.attend
    kernels = {
        (attention, "attend"): lambda *given: attend(*given[:-1], True),
        (gru, "gru_scan"): partial(gru.gru_scan, interpret=True),
        (gru, "gru_scan_backward"): partial(gru.gru_scan_backward, interpret=True),
    }
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for (module, name), kernel in kernels.items():
        monkeypatch.setattr(module, name, noted(name, kernel))
        monkeypatch.setattr(module, "fits", lambda *sizes: True)
    return called
