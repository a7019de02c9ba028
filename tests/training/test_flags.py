"""Global settings of JAX and XLA."""

import os

import jax
import pytest

from refil.training import flags
from refil.training.flags import DETERMINISTIC, NO_FMA


@pytest.mark.parametrize(
    ("machine", "before", "after"),
    [
        ("x86_64", "", NO_FMA),
        ("x86_64", "--xla_a=1", f"--xla_a=1 {NO_FMA}"),
        ("x86_64", "--xla_cpu_max_isa=AVX2", "--xla_cpu_max_isa=AVX2"),
        ("arm64", "", ""),
    ],
)
def test_fma_is_disabled_once_unless_the_user_chose_an_instruction_set(monkeypatch, machine, before, after):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setenv("XLA_FLAGS", before)
    flags.disable_fma()
    flags.disable_fma()
    assert os.environ["XLA_FLAGS"] == after


def test_configure_sets_precision_and_determinism(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", NO_FMA)
    usual = jax.config.jax_default_matmul_precision
    try:
        flags.configure("tf32", deterministic=True)
        assert jax.config.jax_default_matmul_precision == "tensorfloat32"
        assert flags.effective()["xla_flags"].split() == sorted([NO_FMA, DETERMINISTIC])
    finally:
        jax.config.update("jax_default_matmul_precision", usual)
