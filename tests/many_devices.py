"""Checks on four devices, each in a process of its own: the number of CPU devices is fixed when JAX starts."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

COUNT = 4


def check(case: str, *arguments: str) -> None:
    """Run a function of this file on four devices."""
    flags = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={COUNT}"
    subprocess.run(
        [sys.executable, "-m", "tests.many_devices", case, *arguments], env=os.environ | {"XLA_FLAGS": flags}, check=True
    )


def parts() -> None:
    """What the devices have a part of each is what one device has."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec

    from refil.shards import AXIS, Shards

    def on_all(function, *arrays, share_batches=True):
        shared = Shards(COUNT, share_batches)
        spec, mesh = PartitionSpec(), Mesh(np.array(jax.devices()), (AXIS,))
        mapped = jax.shard_map(partial(function, shared), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.jit(mapped)(*arrays)

    own = jax.jit(
        jax.shard_map(
            lambda rows: Shards(COUNT, True).own(rows, 0),
            mesh=Mesh(np.array(jax.devices()), (AXIS,)),
            in_specs=PartitionSpec(),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
    )
    assert own(jnp.arange(8)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert own(jnp.arange(6)).tolist() == [0, 1, 2, 3, 4, 5, 0, 1]  # rows are repeated
    assert own(jnp.arange(1)).tolist() == [0, 0, 0, 0]
    for length in (1, 6, 8):
        rows = {"a": jnp.arange(3.0 * length).reshape(3, length), "b": jnp.ones((2, length, 2), bool)}
        doubled = on_all(lambda shared, rows: shared.divide(partial(jax.tree.map, lambda leaf: leaf * 2), 1, rows), rows)
        jax.tree.map(lambda new, old: np.testing.assert_array_equal(new, old * 2), doubled, rows)
    keys = jax.random.split(jax.random.key(0), 6)
    drawn = on_all(lambda shared, keys: shared.divide(jax.vmap(jax.random.uniform), 0, keys), keys)
    np.testing.assert_array_equal(drawn, jax.vmap(jax.random.uniform)(keys))
    sums = on_all(lambda shared, rows: shared.total(shared.own(rows, 0).sum()), jnp.arange(8))
    assert int(sums) == 28
    assert int(on_all(lambda shared, rows: shared.largest(shared.own(rows, 0).max()), jnp.arange(8))) == 7
    assert float(on_all(lambda shared, value: shared.combine(value), 3.0)) == 12
    assert float(on_all(lambda shared, value: shared.combine(value), 3.0, share_batches=False)) == 3


def replay(iterations: int = 3, shareable: bool = True, **changes) -> None:
    """A replay method plays and learns the same on several devices as on one."""
    from refil.training.replay import loop
    from tests import tiny_runs

    sizes = {"batch": 8, "envs": 4, "pack": (0.7,)} | changes
    config = tiny_runs.small("refil" if shareable else "iql_attention", **sizes)
    evaluated_the_same(loop, *same_as_on_one(config, iterations, shareable))


def onpolicy(iterations: int = 2, shareable: bool = True, **changes) -> None:
    """An on-policy method plays and learns the same on several devices as on one."""
    from tests import tiny_streams

    same_as_on_one(tiny_streams.small("refil_pqn" if shareable else "vdn_pqn", **changes), iterations, shareable)


def seeds() -> None:
    """Two seeds on four devices: each has two of them."""
    replay(seeds=2)
    onpolicy(seeds=2)


def whole_batches() -> None:
    """Devices play together, and compute the same updates, where the loss cannot be added up."""
    replay(shareable=False, batch=5)
    onpolicy(shareable=False)


def odd() -> None:
    """Three devices are used where four do not divide the batch; numbers of environments may be any."""
    replay(batch=6, envs=5)


def evaluated_the_same(algorithm, setup, used, states) -> None:
    """Compare evaluations on all devices and on one."""
    import jax
    import numpy as np

    from refil.training import trainer

    evaluate = partial(trainer._evaluate, algorithm, setup)
    results = used.player(setup.env, evaluate)(states[0]), jax.jit(evaluate)(states[1])
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), *jax.device_get(results))


def same_as_on_one(config, iterations: int, shareable: bool):
    """Compare what is played and learned on all devices and on one; return the states of both."""
    import jax
    import numpy as np

    from refil import shards
    from refil.training import devices

    setup, algorithm = config.build(), config.algorithm_module()
    setup = setup._replace(method=replace(setup.method, shareable=shareable))
    used = devices.devices_for(algorithm, setup)
    assert used.shards == shards.Shards(used.by_row, shareable)
    init = jax.jit(partial(algorithm.init, setup))
    state, one = used.shard(init()), init()
    play_one, learn_one = (jax.jit(partial(step, setup)) for step in (algorithm.play, algorithm.learn))
    play, learn = used.play_and_learn(setup.env, partial(algorithm.play, setup), partial(algorithm.learn, setup))
    for _ in range(iterations):
        played, played_one = play(state), play_one(one)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), *jax.device_get((played, played_one)))
        state, one = learn(state, played), learn_one(one, played_one)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), *jax.device_get((state, one)))
    assert np.asarray(one.counters.updates).all()
    parameters = state.learner.parameters
    copies = [
        np.asarray(shard.data)
        for shard in parameters.addressable_shards
        if shard.index == parameters.addressable_shards[0].index
    ]
    assert len(copies) == used.by_row
    assert all((copy == copies[0]).all() for copy in copies)
    return setup, used, (state, one)


def runs(folder: str) -> None:
    """A run that starts on one device and resumes on four and then two learns the same as on one."""
    import jax
    import numpy as np

    from refil.storage import run_dir
    from refil.training import trainer
    from tests.tiny_runs import small

    found, config = jax.devices(), small("vdn_attention", batch=4, envs=4)

    def train(name: str, count: int, iterations: int, resume: bool = False):
        jax.devices = lambda *_: found[:count]
        path, checks = Path(folder) / name, itertools.count()
        run = run_dir.open_run(path) if resume else run_dir.create(path, config)
        return trainer.train(config, run, resume, should_stop=lambda: next(checks) >= iterations)

    whole = train("whole", 1, 1000)
    train("moved", 1, 3)
    train("moved", 4, 3, resume=True)
    moved = train("moved", 2, 1000, resume=True)
    assert whole.finished
    assert moved.finished
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), whole.models, moved.models)
    for one, other in zip(whole.metrics[-len(moved.metrics) :], moved.metrics, strict=True):
        assert one.keys() == other.keys()
        np.testing.assert_allclose(
            [value for name, value in one.items() if name != "seconds"],
            [value for name, value in other.items() if name != "seconds"],
            rtol=1e-3,
        )


if __name__ == "__main__":
    from jaxtyping import install_import_hook

    with install_import_hook("refil", "beartype.beartype"):
        globals()[sys.argv[1]](*sys.argv[2:])
