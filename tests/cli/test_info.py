"""What `refil info` reports."""

import json

import jax

from refil import hardware
from refil.cli import info
from tests.gpu import pretend_backend


def test_a_cpu_is_reported_without_kernels(capsys):
    info.main([])
    printed = capsys.readouterr().out
    assert f"jax                {jax.__version__}" in printed
    assert "off (no GPU)" in printed
    assert "float32 (no GPU)" in printed


def test_several_devices_are_said_to_share_a_run(monkeypatch):
    assert "seeds" not in info.report()["devices"]
    monkeypatch.setattr(jax, "device_count", lambda: 4)
    assert info.report()["devices"].startswith("4 x ")
    assert info.report()["devices"].endswith("a run divides its seeds among them, then the environments of each seed")


def test_the_reason_for_every_choice_is_named(monkeypatch, capsys):
    pretend_backend(monkeypatch, "gpu")
    monkeypatch.setattr(hardware, "device", lambda: hardware.Device("gpu", "Tesla T4", "nvidia", (7, 5)))
    info.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["kernels"]["--kernels auto"] == "off (Tesla T4 is older than Ampere; '--kernels on' tries them)"
    assert found["precision"]["--precision auto"] == "float32 (Tesla T4 is older than Ampere)"
    assert "compute capability 7.5" in found["devices"]


def test_what_compiles_the_kernels_is_named(monkeypatch):
    pretend_backend(monkeypatch, "gpu")
    monkeypatch.setattr(hardware, "device", lambda: hardware.Device("gpu", "NVIDIA H200", "nvidia", (9, 0)))
    monkeypatch.setattr(hardware, "compiler", lambda: "Triton")
    kernels = info.report()["kernels"]
    assert kernels["--kernels auto"] == "on, compiled by Triton (NVIDIA GPU since Ampere)"
    assert kernels["GRU"].startswith("on   all timesteps")
