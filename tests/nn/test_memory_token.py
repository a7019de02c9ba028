"""UPDeT's memory token over whole episodes, against a scan of the whole transformer over time."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import memory_token
from refil.nn.kernels import heads, updet
from refil.nn.transformer import UpdetUtility, updet_utility
from refil.nn.utilities import scan_steps, unroll
from tests.tiny_methods import SPECS, random_batch


def random_utility(size: int = 8, count: int = 2, depth: int = 2) -> UpdetUtility:
    """A utility whose parameters are all random, those of its norms too."""
    utility = updet_utility(SPECS[1], size, count, depth, False, jax.random.key(0))
    leaves, structure = jax.tree.flatten(utility)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, noisy)


def random_inputs(views: int, sizes: tuple[int, ...], size: int = 8):
    """Inputs of time, rows, agents and entities, where episodes begin, and memory tokens to start from."""
    keys = jax.random.split(jax.random.key(views), 5)
    time, rows, agents, _ = sizes
    inputs = memory_token.Inputs(
        jax.random.normal(keys[0], (1, *sizes, size)),
        jax.random.bernoulli(keys[1], 0.6, (views, *sizes)),
        jax.random.bernoulli(keys[2], 0.8, (1, time, rows, agents)),
    )
    is_first = jax.random.bernoulli(keys[3], 0.2, (1, time, rows, 1, 1)).at[:, 0, 0].set(True)
    return inputs, is_first, jax.random.normal(keys[4], (views, rows, agents, size))


def split(utility: UpdetUtility, inputs, is_first, start):
    """The recurrence of the memory token, followed by everything else."""
    tokens = memory_token.memory_scan(memory_token.Layers(utility.blocks, utility.output), inputs, is_first, start)
    return utility.head(utility.output(utility.blocks[-1](tokens, inputs.visible())[..., :-1, :]))


def together(utility: UpdetUtility, inputs, is_first, start):
    """The whole transformer timestep by timestep."""
    initial = utility.initial_state(len(inputs.view), *inputs.view.shape[2:-1])
    return scan_steps(utility, inputs, is_first[..., 0, 0], initial, start)


def scores_and_gradients(function, utility, inputs, is_first, start):
    """The scores, and the gradients of parameters and tokens."""

    def weighted(utility, tokens):
        scores = function(utility, memory_token.Inputs(tokens, inputs.view, inputs.agent_present), is_first, start)
        return (scores * jnp.sin(jnp.arange(scores.size)).reshape(scores.shape)).sum(), scores

    return jax.jit(jax.value_and_grad(weighted, argnums=(0, 1), has_aux=True))(utility, inputs.tokens)


def assert_close(ours, theirs, tolerance: float = 1e-5):
    """Compare relative to the largest entry of each array."""
    for one, other in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        scale = max(float(jnp.abs(other).max()), 1e-3)
        np.testing.assert_allclose(np.asarray(one, np.float32) / scale, other / scale, atol=tolerance)


@pytest.mark.parametrize(
    ("views", "depth", "continued"),
    [(3, 2, True), pytest.param(1, 2, False, marks=pytest.mark.slow), pytest.param(1, 1, True, marks=pytest.mark.slow)],
)
def test_scores_and_gradients_are_those_of_the_transformer_timestep_by_timestep(views, depth, continued):
    """With episodes that begin in the middle of a row, absent agents, and memory from before the first timestep."""
    inputs, is_first, start = random_inputs(views, (7, 2, 2, 4))
    arguments = random_utility(depth=depth), inputs, is_first, start if continued else None
    assert_close(scores_and_gradients(split, *arguments), scores_and_gradients(together, *arguments), 1e-4)


def use_kernels(monkeypatch):
    """From now on a UPDeT utility takes the path of a GPU, with interpreted kernels."""
    monkeypatch.setattr(updet, "fits", lambda layers, inputs: True)
    monkeypatch.setattr(updet, "forward", partial(updet.forward, interpret=True))
    monkeypatch.setattr(updet, "backward", partial(updet.backward, interpret=True))
    monkeypatch.setattr(heads, "fits", lambda tokens: False)


def test_a_batch_has_the_same_q_values_and_gradients_with_kernels(monkeypatch):
    utility, batch = random_utility(16), random_batch(SPECS[1], 3)
    visible = batch.observations.visible
    views = jnp.stack([visible, visible & (jax.random.uniform(jax.random.key(3), visible.shape) < 0.5)])

    def q_and_gradient():
        def square(utility):
            q = unroll(utility, batch, views)
            return (q**2).sum(), q

        return jax.jit(jax.value_and_grad(square, has_aux=True))(utility)

    expected = q_and_gradient()
    use_kernels(monkeypatch)
    assert_close(q_and_gradient(), expected, 1e-4)
