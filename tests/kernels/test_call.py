"""Kernels that are translated for Triton compute what the interpreted kernels compute; here the translation runs in NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import hardware
from refil.envs.starcraft.sim import kernel as battle
from refil.kernels import call
from refil.kernels.program import Options
from refil.nn.kernels import attention, gru, heads, layer_norm, updet
from tests.envs.starcraft.sim.test_kernel import amid_battle, assert_same
from tests.kernels import language
from tests.nn.kernels import test_updet

FLOATS = pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.02}


def normal(seed, *shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def assert_close(ours, theirs, dtype=jnp.float32):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one.dtype == other.dtype
        one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
        np.testing.assert_allclose(one, other, atol=TOLERANCE[jnp.dtype(dtype).name] * np.abs(other).max())


def assert_translated(monkeypatch, kernel, arguments, dtype=jnp.float32):
    """Check that a function with an argument `interpret` returns the same when its kernels are translated."""
    expected = kernel(*arguments, interpret=True)
    names = language.use(monkeypatch)
    assert_close(kernel(*arguments, interpret=False), expected, dtype)
    assert names


@FLOATS
def test_scans_of_the_gru(monkeypatch, dtype):
    size, shape = 16, (2, 4, 18)
    weight, biases = normal(0, size, 3 * size) / 4, normal(1, 2, 3 * size)
    gates, previous, gradient = (normal(seed, *shape, width, dtype=dtype) for seed, width in ((2, 48), (3, 16), (4, 16)))
    is_first, start = normal(5, *shape, 1) > 1, normal(6, 2, 18, size)

    def scans(interpret):
        options = {"interpret": interpret}
        forward = gru.gru_scan_with_previous(weight, biases, gates, is_first, start, **options)
        return forward, gru.gru_scan_backward(weight, biases, gates, previous, is_first, gradient, **options)

    assert_translated(monkeypatch, scans, (), dtype)


@FLOATS
@pytest.mark.parametrize(("entities", "value_dim", "sum_heads"), [(16, 16, False), (8, 1, True)])
def test_attention_and_its_gradient(monkeypatch, dtype, entities, value_dim, sum_heads):
    projections = normal(0, 5, entities, 64 + 2 * value_dim + 3, dtype=dtype)
    views = normal(1, 2, 5, 3, entities) > 0

    def both(projections, views, interpret):
        attend = partial(attention.attend, views=views, size=32, heads=2, value_dim=value_dim, sum_heads=sum_heads)
        value, pullback = jax.vjp(lambda given: attend(given, interpret=interpret), projections)
        return value, pullback(jnp.cos(value))

    assert_translated(monkeypatch, both, (projections, views), dtype)


def test_attention_of_few_tokens(monkeypatch):
    queries, others, visible = normal(0, 3, 5, 32), normal(1, 3, 7, 64), normal(2, 3, 7) > -1

    def both(queries, others, interpret):
        value, pullback = jax.vjp(lambda *given: heads.attend(*given, visible, 2, interpret), queries, others)
        return value, pullback(jnp.cos(value))

    assert_translated(monkeypatch, both, (queries, others))


def test_masked_loads_do_not_need_the_triton_backend_of_pallas(monkeypatch):
    names = language.use(monkeypatch)
    tokens = normal(0, 3, 5, 32), normal(1, 3, 7, 64), jnp.ones((3, 7), bool)
    usual = heads.attend(*tokens, 2, False)
    names.clear()
    monkeypatch.setattr(hardware, "triton", None)
    without = heads.attend(*(leaf[:2] for leaf in tokens), 2, False)  # other shapes, so that it is traced again
    np.testing.assert_array_equal(without, usual[:2])
    assert len(names) == 1


@pytest.mark.parametrize("relu", [True, False])
def test_the_gradient_of_layer_normalization(monkeypatch, relu):
    inputs, gradient = normal(0, 40, 16), normal(1, 40, 16)
    backward = partial(layer_norm.layer_norm_backward, relu=relu)
    assert_translated(monkeypatch, backward, (inputs, normal(2, 16), normal(3, 16), gradient))


def test_the_memory_token_of_updet(monkeypatch):
    (layers, inputs), is_first, start, gradient = test_updet.random_arguments(*test_updet.SIZES[3])

    def both(interpret):
        tokens, previous = updet.forward(layers, inputs, is_first, start, interpret)
        return tokens, previous, updet.backward(layers, inputs, is_first, previous, gradient, interpret)

    assert_translated(monkeypatch, both, ())


@pytest.mark.parametrize("near_only", [False, True])
def test_battles(monkeypatch, near_only):
    game, state, jitter = amid_battle("3-8MMM", battles=3)
    expected = battle.run_ticks(state, jitter, game, interpret=True)
    names = language.use(monkeypatch)
    assert_same(battle.run_ticks(state, jitter, game, plan=battle.Plan(near_only=near_only)), expected)
    assert names == ["game_ticks"]


def test_tanh_has_all_digits(monkeypatch):
    values = jnp.concatenate([jnp.linspace(-12, 12, 481), jnp.geomspace(1e-8, 1, 31)])

    def kernel(inputs, outputs):
        outputs[...] = jnp.tanh(inputs[...])

    language.use(monkeypatch)
    spec = call.pl.BlockSpec((512,), lambda i: (0,))
    result = call.kernel_call(kernel, jax.ShapeDtypeStruct((512,), jnp.float32), (1,), [spec], spec, Options())(values)
    np.testing.assert_allclose(result, np.tanh(np.asarray(values, np.float64)), rtol=3e-7)


def test_kernels_can_be_batched(monkeypatch):
    inputs, gradient, scale = normal(0, 2, 3, 33, 16), normal(1, 3, 33, 16), normal(2, 2, 16)

    def backward(inputs, scale, interpret):
        one = partial(layer_norm.layer_norm_backward, relu=True, interpret=interpret)
        by_row = jax.vmap(one, in_axes=(0, None, None, 0))
        return jax.vmap(by_row, in_axes=(0, 0, None, None))(inputs, scale, jnp.ones(16), gradient)

    assert_translated(monkeypatch, backward, (inputs, scale))


def test_kernels_run_inside_of_a_mesh(monkeypatch):
    """The kernel is traced for one device, whatever the mesh."""
    inputs, gradient, scale = normal(0, 2, 16, 16), normal(1, 2, 16, 16), normal(2, 16)
    backward = partial(layer_norm.layer_norm_backward, relu=True)
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("seeds",))

    def both(inputs, gradient, interpret):
        one = partial(backward, interpret=interpret)
        mapped = jax.vmap(one, in_axes=(0, None, None, 0))
        specs = jax.sharding.PartitionSpec("seeds")
        here = jax.shard_map(
            lambda inputs, gradient: mapped(inputs, scale, jnp.ones(16), gradient),
            mesh=mesh,
            in_specs=specs,
            out_specs=specs,
            check_vma=False,
        )
        return jax.jit(here)(inputs, gradient)

    assert_translated(monkeypatch, both, (inputs, gradient))
