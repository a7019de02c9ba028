"""Several devices train what one does."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.training import devices
from refil.training.devices import Devices

# In a process of its own: how many devices a CPU counts as is settled when JAX starts.
PROGRAM = """
import sys
from pathlib import Path

import jax

from refil import runs, train
from tests.tiny_runs import small

assert jax.device_count() == 2
asked = small(seeds=2)
run = runs.create(Path(sys.argv[1]), asked)
half = runs.create(Path(sys.argv[1] + "-half"), asked)
assert train.run(asked, run)
assert not train.run(small(seeds=2, stop_after=0.0), half)
assert train.run(asked, half, resume=True)
"""


@pytest.fixture(scope="module")
def shared_out(tmp_path_factory):
    """A run of two seeds on two devices, and one that was stopped and went on."""
    path = tmp_path_factory.mktemp("devices") / "run"
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=os.environ | {"XLA_FLAGS": flags}, check=True)
    return path


def test_seeds_on_two_devices_learn_what_they_learn_on_one(shared_out, tmp_path):
    from safetensors.numpy import load_file

    from refil.storage import run_dir
    from refil.training import trainer
    from tests.tiny_runs import small

    asked = small(seeds=2)
    alone = run_dir.create(tmp_path / "alone", asked)
    assert trainer.run(asked, alone)
    for seed in range(2):
        one, other = (load_file(path / f"model_seed_{seed}.safetensors") for path in (shared_out, alone.path))
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5)
    lines = [run_dir.existing(path).metrics() for path in (shared_out, alone.path)]
    evaluated = [{(line["seed"], line["env_steps"]) for line in some if "win_rate" in line} for some in lines]
    assert evaluated[0] == evaluated[1]


def test_a_run_on_two_devices_goes_on_exactly(shared_out):
    for seed in range(2):
        name = f"model_seed_{seed}.safetensors"
        assert (shared_out / name).read_bytes() == (shared_out.parent / "run-half" / name).read_bytes()


def test_one_device_is_left_alone():
    devices = Devices(3)
    if len(jax.devices()) == 1:
        assert len(devices) == 1
    tree = {"a": jnp.arange(3.0)}
    assert devices.each(lambda tree: tree)(tree)["a"].shape == (3,)
    np.testing.assert_array_equal(devices.share_out(tree)["a"], tree["a"])


def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    known = dict(devices.OPTIONS)
    devices.known_options.cache_clear()
    monkeypatch.setattr(devices.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(devices, "OPTIONS", known | {"xla_gpu_no_such_option": "1"})
    assert devices.known_options() == known
    devices.known_options.cache_clear()
