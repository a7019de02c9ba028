"""Global settings of JAX and XLA."""

import os
import warnings

import jax
import pytest

import refil
from refil.training import flags
from refil.training.flags import DETERMINISTIC, NO_FMA


def before_jax_starts(monkeypatch):
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)


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
    before_jax_starts(monkeypatch)
    flags.disable_fma()
    flags.disable_fma()
    assert os.environ["XLA_FLAGS"] == after


def test_configure_sets_precision_and_determinism(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", NO_FMA)
    before_jax_starts(monkeypatch)
    usual = jax.config.jax_default_matmul_precision
    try:
        flags.configure("tf32", deterministic=True)
        assert jax.config.jax_default_matmul_precision == "tensorfloat32"
        assert flags.effective()["xla_flags"].split() == sorted([NO_FMA, DETERMINISTIC])
    finally:
        jax.config.update("jax_default_matmul_precision", usual)


def test_configure_warns_once_if_its_flags_come_too_late(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    jax.devices()  # starts JAX
    message = "came after JAX started, so these XLA flags have no effect: .*isa=AVX .*ops=true; call it before the first array"
    with pytest.warns(UserWarning, match=message) as found:
        refil.configure(deterministic=True)
    assert len(found) == 1
    assert flags.effective()["xla_flags"] == "--xla_a=1"


def test_configure_does_not_warn_if_the_flags_are_there(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"{NO_FMA} {DETERMINISTIC}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refil.configure(deterministic=True)
