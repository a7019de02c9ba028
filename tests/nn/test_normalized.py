"""Networks with layer normalization."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.nn import normalized
from refil.nn.attention import attention
from refil.types import Spec
from tests.tiny_methods import random_batch

SPEC = Spec(3, 5, 4, 5, 4, target_actions=3)
SMALL = OnPolicyNetOptions(size=8, heads=2, memory=4, mixing=4)


def test_a_dense_layer_is_normalized_and_activated():
    layer, inputs = normalized.normalized_linear(3, 16, jax.random.key(0)), jax.random.normal(jax.random.key(1), (7, 3))
    np.testing.assert_allclose(layer(inputs), jax.nn.relu(layer.norm(layer.linear(inputs))), atol=1e-6)


def test_an_encoder_has_the_asked_number_of_outputs_and_ignores_what_is_out_of_view():
    encoder = normalized.normalized_encoder((3, 8, 6), partial(attention, 8, 2), jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (5, 3))
    view = jnp.array([[[True, False, True, False, False], [False, True, True, True, True]]])
    outputs = encoder(inputs, view)
    assert outputs.shape == (1, 2, 6)
    changed = encoder(inputs.at[4].set(9.0), view)
    np.testing.assert_allclose(changed[0, 0], outputs[0, 0], atol=1e-6)
    assert not np.allclose(changed[0, 1], outputs[0, 1])


@pytest.mark.parametrize("own", [False, True])
def test_agents_that_see_the_same_without_preferences_differ_by_their_own_embedding_only(own):
    encoder = normalized.normalized_encoder((3, 8, 6), partial(attention, 8, 2), jax.random.key(0))
    even = replace(encoder.aggregator, query_key_value=encoder.aggregator.query_key_value.at[:, :8].set(0.0))
    layer = normalized.linear(8, 6, jax.random.key(1)) if own else None
    inputs = jax.random.normal(jax.random.key(2), (5, 3))
    (outputs,) = replace(encoder, aggregator=even, own=layer)(inputs, jnp.ones((1, 2, 5), bool))
    assert np.allclose(outputs[0], outputs[1], atol=1e-5) != own


def test_exact_layers_compute_in_float32():
    layer = normalized.linear(4, 2, jax.random.key(0))
    rounded = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), normalized.ExactLinear(layer))
    inputs = jnp.full((4,), 20.0, jnp.bfloat16)
    assert rounded.linear.weight.dtype == jnp.bfloat16
    assert rounded(inputs).dtype == jnp.float32


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"recurrent": False},
        {"layer_norm": False},
        {"utility": "mean_pooling"},
        {"utility": "updet"},
        {"mixer": "vdn"},
        {"own_embedding": True},
        {"own_embedding": True, "recurrent": False, "utility": "mean_pooling"},
    ],
    ids=str,
)
def test_every_choice_of_networks_can_be_initialized(changes):
    model = jax.eval_shape(partial(on_policy_model, replace(SMALL, **changes), SPEC), jax.random.key(0))
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(model))


def test_the_joint_value_never_falls_when_a_utility_rises():
    model, obs = on_policy_model(SMALL, SPEC, jax.random.key(0)), random_batch(SPEC, 0).observations
    context = model.mixer.context(obs, jnp.stack([obs.full_view] * 3))
    utilities = jax.random.normal(jax.random.key(1), (3, *obs.agent_present.shape))
    slope = jax.grad(lambda utilities: model.mixer.value(*context, utilities).sum())(utilities)
    assert (slope >= 0).all()
    assert (slope > 0).any()
