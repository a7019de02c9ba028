"""When kernels are used."""

import jax

from refil.nn.kernels import pallas


def test_kernels_are_for_gpus(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert not pallas.available()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert pallas.available()
    monkeypatch.setattr(pallas, "triton", None)  # a JAX that has given it up
    assert not pallas.available()


def test_blocks_have_powers_of_two():
    assert [size for size in range(20) if pallas.power_of_two(size)] == [1, 2, 4, 8, 16]
