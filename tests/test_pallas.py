"""When kernels can run."""

import jax

from refil import pallas


def test_kernels_need_a_gpu_and_the_triton_backend(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert not pallas.available()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert pallas.available()
    monkeypatch.setattr(pallas, "triton", None)  # a JAX version without it
    assert not pallas.available()


def test_block_sizes_are_powers_of_two():
    assert [size for size in range(20) if pallas.is_power_of_two(size)] == [1, 2, 4, 8, 16]
