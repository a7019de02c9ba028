"""Several devices train the same as one."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import hardware
from refil.errors import RefilError
from refil.kernels.source import KernelError
from refil.training import devices
from refil.training.devices import Devices
from tests import tiny_runs, tiny_streams
from tests.gpu import pretend_backend
from tests.test_hosted import GAME, Hosted

# In its own process: the number of CPU devices is fixed when JAX starts.
PROGRAM = """
import itertools
import sys
from pathlib import Path

import jax

from refil.storage import run_dir
from refil.training import trainer
from tests.tiny_runs import small

assert jax.device_count() == 2
config = small(seeds=2)
assert trainer.train(config, run_dir.create(Path(sys.argv[1]), config)).finished
stopped = run_dir.create(Path(sys.argv[1] + "-stopped"), config)
checks = itertools.count()
assert not trainer.train(config, stopped, should_stop=lambda: next(checks) > 5).finished
assert trainer.train(config, stopped, resume=True).finished
"""


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    """A run of two seeds on two devices, and one that was stopped and resumed."""
    path = tmp_path_factory.mktemp("devices") / "run"
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=os.environ | {"XLA_FLAGS": flags}, check=True)
    return path


@pytest.mark.slow
def test_seeds_on_two_devices_learn_the_same_as_on_one(two_devices, tmp_path):
    from safetensors.numpy import load_file

    from refil.storage import run_dir
    from refil.training import trainer
    from tests.tiny_runs import small

    config = small(seeds=2)
    alone = run_dir.create(tmp_path / "alone", config)
    assert trainer.train(config, alone).finished
    for seed in range(2):
        one, other = (load_file(path / f"model_seed_{seed}.safetensors") for path in (two_devices, alone.path))
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5)
    lines = [run_dir.open_run(path).metrics() for path in (two_devices, alone.path)]
    evaluated = [{(line["seed"], line["env_steps"]) for line in some if "win_rate" in line} for some in lines]
    assert evaluated[0] == evaluated[1]


@pytest.mark.slow
def test_a_run_on_two_devices_resumes_bit_identically(two_devices):
    for seed in range(2):
        name = f"model_seed_{seed}.safetensors"
        assert (two_devices / name).read_bytes() == (two_devices.parent / "run-stopped" / name).read_bytes()


@pytest.fixture
def four(monkeypatch):
    """Pretend that there are four devices."""
    monkeypatch.setattr(devices.jax, "devices", lambda: list(range(4)))
    monkeypatch.setattr(devices, "Mesh", lambda found, names: SimpleNamespace(shape=dict(zip(names, found.shape, strict=True))))


def test_seeds_use_the_largest_number_of_devices_that_divides_them(four):
    assert [len(Devices(seeds)) for seeds in (1, 2, 3, 4, 6, 7, 8)] == [1, 2, 3, 4, 3, 1, 4]
    assert Devices(2).mesh.shape == {"seeds": 2}  # programs are those of one device per seed


def test_devices_that_seeds_leave_idle_share_each_seed(four):
    used = {(seeds, rows): Devices(seeds, rows) for seeds, rows in [(1, 8), (2, 8), (3, 8), (4, 8), (5, 8), (1, 6), (1, 7)]}
    assert [(each.by_seed, each.by_row) for each in used.values()] == [(1, 4), (2, 2), (3, 1), (4, 1), (1, 4), (1, 3), (1, 1)]
    assert used[2, 8].mesh.shape == {"seeds": 2, "shards": 2}
    assert used[4, 8].shards is None
    assert used[2, 8].layout() == "4 of 4 devices: seeds over 2, the environments of each over 2"
    assert "3 of 4 devices" in used[1, 6].layout()
    assert used[1, 6].layout().endswith("no larger number divides the seeds (1) or a seed's rows (6)")


def test_what_a_seed_divides_into_is_a_minibatch_a_batch_or_its_environments(four):
    replay, on_policy = tiny_runs.small(batch=6, envs=4), tiny_streams.small(minibatches=4)
    for config, shared, whole in ((replay, 3, 4), (on_policy, 2, 4)):
        setup, algorithm = config.build(), config.algorithm_module()
        assert devices.devices_for(algorithm, setup).by_row == shared
        method = replace(setup.method, shareable=False)
        assert devices.devices_for(algorithm, setup._replace(method=method)).by_row == whole
        assert devices.devices_for(algorithm, setup._replace(env=Hosted(setup.env))).by_row == 1


def test_on_one_device_nothing_is_sharded(monkeypatch):
    first = jax.devices()[:1]
    monkeypatch.setattr(devices.jax, "devices", lambda: first)
    one, tree = Devices(3), {"a": jnp.arange(3.0)}
    assert len(one) == 1
    assert one.layout() == ""
    assert one.shard_mapped(lambda tree: tree)(tree)["a"].shape == (3,)
    assert one.shard(tree) is tree
    shapes = one.sharded_shapes(tree)
    assert (shapes["a"].shape, shapes["a"].dtype, shapes["a"].sharding) == ((3,), jnp.float32, None)


def test_compiler_options_that_xla_does_not_support_are_left_out(monkeypatch):
    supported = dict(devices.OPTIONS)
    devices.supported_options.cache_clear()
    pretend_backend(monkeypatch, "gpu")
    monkeypatch.setattr(devices, "OPTIONS", supported | {"xla_gpu_no_such_option": "1"})
    assert devices.supported_options() == supported
    devices.supported_options.cache_clear()


def test_compiled_programs_are_returned_in_the_order_given():
    double, add = devices.compile_all((jax.jit(lambda x: 2 * x), 1.0), (jax.jit(lambda x, y: x + y), 1.0, 2.0))
    assert double(3.0) == 6
    assert add(3.0, 4.0) == 7


def test_a_state_that_does_not_fit_into_memory_is_refused_before_it_is_created(monkeypatch):
    monkeypatch.setattr(devices, "memory_bytes", lambda: 10**9)
    first = jax.devices()[:1]
    monkeypatch.setattr(devices.jax, "devices", lambda: first)

    def memory(buffer: int, batch: int, seeds: int, shared_by: int) -> dict[str, int]:
        return {"algorithm.buffer": seeds * buffer * 10**6, "algorithm.batch": batch * 10**6}

    for sizes, seeds, option in [
        ((1600, 1), 1, "algorithm.buffer"),
        ((1600, 3000), 1, "algorithm.batch"),
        ((400, 1), 4, "train.seeds"),
        ((1600, 1), 4, "algorithm.buffer"),
    ]:
        with pytest.raises(RefilError, match=rf"training needs .* GB of memory where 1\.0 GB are available; reduce {option}$"):
            devices.check_device_memory(partial(memory, *sizes), Devices(seeds))
    devices.check_device_memory(partial(memory, 900, 10), Devices(1))


def test_seeds_share_the_memory_of_several_devices(monkeypatch, four):
    monkeypatch.setattr(devices, "memory_bytes", lambda: 10**9)

    def memory(seeds: int, shared_by: int) -> dict[str, int]:  # the buffer is whole on every device that shares a seed
        return {"algorithm.buffer": seeds * 7 * 10**8, "algorithm.batch": seeds * 8 * 10**8 // shared_by}

    devices.check_device_memory(memory, Devices(1, 4))
    devices.check_device_memory(lambda seeds, shared_by: {"algorithm.buffer": seeds * 8 * 10**8}, Devices(4))
    for used in (Devices(1, 1), Devices(2, 2), Devices(2, 1), Devices(4, 1)):
        with pytest.raises(RefilError, match=r"1\.[15] GB of memory"):
            devices.check_device_memory(memory, used)
    with pytest.raises(RefilError, match=r"1\.6 GB of memory"):
        devices.check_device_memory(lambda seeds, shared_by: {"algorithm.buffer": seeds * 8 * 10**8}, Devices(8))


def test_programs_compile_with_the_precision_of_this_thread():
    program = jax.jit(lambda x: x @ x)
    with jax.default_matmul_precision("highest"):
        (compiled,) = devices.compile_all((program, jnp.ones((4, 4))))
    assert "operand_precision={highest,highest}" in compiled.as_text()


def fails_with_kernels(values):
    """A program that does not compile while kernels are on."""
    if hardware.kernels().yes:
        raise KernelError("out of shared memory\nand a long explanation")
    return values + 1


@pytest.fixture
def kernels(monkeypatch):
    """Pretend that kernels can run, where they could not."""
    monkeypatch.setattr(hardware, "_failures", [])
    monkeypatch.setattr(hardware, "kernels", lambda: hardware.Choice(not hardware._failures, "".join(hardware._failures)))


def test_a_kernel_that_does_not_compile_is_reported_once_and_replaced(kernels):
    with pytest.warns(UserWarning, match="without GPU kernels, several times slower: out of shared memory$"):
        assert devices.run(GAME, fails_with_kernels, np.ones(2)).tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert devices.run(GAME, fails_with_kernels, np.ones(2)).tolist() == [2, 2]


def test_errors_that_kernels_do_not_cause_are_raised(kernels):
    def broken(values):
        raise ZeroDivisionError("a mistake")

    with pytest.raises(ZeroDivisionError, match="a mistake"):
        devices.run(GAME, broken, np.ones(2))


def test_the_use_of_kernels_reaches_the_threads_that_compile():
    seen = []

    def program(values):
        seen.append(hardware._here.get())
        return values

    with hardware.using_kernels("off"):
        devices.run(GAME, program, np.ones(2))
    assert seen == ["off"]


def test_a_program_that_plays_is_traced_once_for_its_shapes_and_to_compile_it():
    traces, state = [], jax.ShapeDtypeStruct((1,), jnp.float32)
    play, learn = Devices(1).play_and_learn(GAME, lambda state: traces.append(state) or state + 1, lambda *both: sum(both))
    devices.compile_all((learn, state, play.eval_shape(state)), (play, state))
    assert len(traces) == 1


def test_playing_outside_of_programs_is_put_off_until_learning_needs_it():
    env, played = Hosted(GAME), []

    def play(state):
        played.append(state[0])
        return state + 1

    shapes = jax.ShapeDtypeStruct((1,), jnp.float32)
    play_program, learn = Devices(1).play_and_learn(env, play, lambda state, played: state + 10 * played)
    assert play_program.eval_shape(shapes) == shapes
    played.clear()
    state, learn = jnp.zeros(1), learn.lower(shapes, shapes).compile()
    for expected in (10.0, 120.0):
        waiting = play_program.lower(state).compile()(state)
        assert len(played) == (expected > 10)
        state = learn(state, waiting)
        assert state.tolist() == [expected]
    play_program(state)
    assert [value.item() for value in played] == [0.0, 10.0]  # the last one is not needed
