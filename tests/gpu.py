"""Programs for a GPU, written on a machine that has none."""

import jax


def program_for_gpu(function, *given) -> str:
    """What JAX would have compiled."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
        return jax.jit(function).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
