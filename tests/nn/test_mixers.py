"""Mixing networks, with values worked out by hand."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning.networks import MixerOptions, attention_factory, mixing_network
from refil.nn.layers import Linear
from refil.nn.mixers import Hypernet, LinearQmix, LinearShared, Qmix, QmixShared, Vdn, mean_over_agents
from refil.nn.pooling import Pooling
from tests.tiny_methods import SPECS, as_floats, random_batch

SPEC = SPECS[1]
UTILITIES = jnp.array([[1.0, -2.0, 0.0]])  # one factor, three agents; the last agent is absent, so that its utility is 0
TWO_FACTORS = jnp.array([[1.0, -2.0, 0.0], [3.0, 0.5, 0.0]])
PRESENT = jnp.array([True, True, False])
IDENTITY = Linear(jnp.eye(2), jnp.zeros(2))
MEAN = Pooling(IDENTITY, IDENTITY, "mean", exact=True)
UNUSED = Hypernet(IDENTITY, MEAN, IDENTITY)  # only `context` uses hypernetworks


def test_vdn_sums_the_utilities_of_all_agents_and_factors():
    assert Vdn().value((), (), UTILITIES) == -1.0
    assert Vdn().value((), (), TWO_FACTORS) == 2.5


def test_a_linear_mixer_weights_utilities_by_a_softmax_over_present_agents_and_factors():
    shared = LinearShared(PRESENT, jnp.asarray(10.0))
    raw = jnp.log(jnp.array([[1.0, 3.0, 100.0]]))
    assert float(value_of("softmax", raw, shared, UTILITIES)) == pytest.approx(10 + (1 * 1 - 3 * 2) / 4)
    raw = jnp.log(jnp.array([[1.0, 3.0, 100.0], [4.0, 2.0, 100.0]]))
    assert float(value_of("softmax", raw, shared, TWO_FACTORS)) == pytest.approx(10 + (1 * 1 - 3 * 2 + 4 * 3 + 2 * 0.5) / 10)


def value_of(positive, raw, shared, utilities):
    return LinearQmix(UNUSED, UNUSED, positive, 0).value(raw, shared, utilities)


def test_a_linear_mixer_with_absolute_weights():
    shared = LinearShared(PRESENT, jnp.asarray(10.0))
    raw = jnp.array([[-1.0, 3.0, 100.0], [4.0, -2.0, 100.0]])
    assert float(value_of("absolute", raw[:1], shared, UTILITIES)) == pytest.approx(10 + 1 - 6)
    assert float(value_of("absolute", raw, shared, TWO_FACTORS)) == pytest.approx(10 + 1 - 6 + 12 + 1)


def test_qmix_is_two_layers_with_an_elu_between_them():
    per_factor = jnp.array([[[1.0, 2.0], [3.0, 1.0], [9.0, 9.0]], [[2.0, 0.0], [4.0, 2.0], [9.0, 9.0]]])
    shared = QmixShared(jnp.array([4.0, -3.0]), jnp.array([2.0, 10.0]), jnp.asarray(0.5))
    qmix = Qmix(UNUSED, UNUSED, UNUSED, UNUSED, "softmax", 0)
    # One factor: hidden (1 - 6 + 4, 2 - 2 - 3) = (-1, -3), through ELU exp(x) - 1.
    expected = 2 * (np.exp(-1) - 1) + 10 * (np.exp(-3) - 1) + 0.5
    assert float(qmix.value(per_factor[:1], shared, UTILITIES)) == pytest.approx(expected, rel=1e-6)
    # Two factors: hidden (-1 + 6 + 2, -3 + 0 + 1) = (7, -2).
    expected = 2 * 7 + 10 * (np.exp(-2) - 1) + 0.5
    assert float(qmix.value(per_factor, shared, TWO_FACTORS)) == pytest.approx(expected, rel=1e-6)


def test_a_hypernetwork_averages_columns_and_agents_and_counts_absent_agents_as_zeros():
    net = Hypernet(IDENTITY, MEAN, Linear(jnp.array([[1.0, 3.0], [0.0, 2.0]]), jnp.ones(2)))
    obs = jax.tree.map(lambda leaf: leaf[0, 0], random_batch(SPEC, 0).observations)
    entities = jnp.array([[2.0, 0.0], [9.0, 9.0], [4.0, 6.0], [0.0, 0.0], [0.0, 0.0]])
    obs = replace(obs, entities=entities, present=jnp.array([True, False, True, False, False]))
    # Present agents see (2, 0) and (4, 6), with mean (3, 3); its row is (3 + 1, 9 + 6 + 1) = (4, 16).
    rows = net.project(entities).attend(obs.full_view[None])[0]
    np.testing.assert_allclose(rows[jnp.array([0, 2])], [[4, 16], [4, 16]])
    np.testing.assert_allclose(mean_over_agents(net.project(entities), obs), np.array([4, 16]) * 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(mean_over_agents(net.project_mean(entities), obs), [10 * 2 / 3], rtol=1e-6)


CASES = [(mixer, positive) for mixer in ("attention", "linear") for positive in ("softmax", "absolute")]


class Networks(eqx.Module):
    """A mixing network, observations of one timestep, and the views of two factors."""

    mixer: eqx.Module
    obs: eqx.Module
    views: jax.Array


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def networks(request):
    mixer, positive = request.param
    options = MixerOptions(size=4, heads=2, mixing=4, mixer=mixer, positive=positive, last_action=True)
    net = mixing_network(options, options, SPEC, attention_factory(4, 2), jax.random.key(1))
    obs = jax.tree.map(lambda leaf: leaf[:, 0], random_batch(SPEC, 1).observations)
    present = obs.present.at[:, :3].set(jnp.array([True, True, False]))
    obs = replace(obs, present=present, visible=obs.visible & present[:, None, :])
    half = jnp.arange(5) % 2 == 0
    return Networks(net, obs, jnp.stack([obs.full_view & half, obs.full_view & ~half]))


@eqx.filter_jit
def mixed(networks: Networks, utilities):
    return networks.mixer.value(*networks.mixer.context(networks.obs, networks.views), utilities)


def utilities_of(networks: Networks):
    values = as_floats(np.random.default_rng(2).normal(size=(2, 3, 3)))
    return jnp.where(networks.obs.agent_present, values, 0.0)


def test_the_joint_value_rises_with_the_utility_of_every_present_agent(networks):
    slope = jax.grad(lambda utilities: mixed(networks, utilities).sum())(utilities_of(networks))
    assert (slope >= 0).all()
    assert (slope[:, :, :2] > 0).all()


def test_absent_agents_and_their_features_have_no_effect(networks):
    value = mixed(networks, utilities_of(networks))
    garbage = jnp.where(networks.obs.present[..., None], networks.obs.entities, 1e3)
    last_action = networks.obs.last_action.at[:, 2].set(1)
    changed = replace(networks, obs=replace(networks.obs, entities=garbage, last_action=last_action))
    np.testing.assert_allclose(mixed(changed, utilities_of(networks)), value, rtol=1e-5)


def test_the_value_of_some_factors_is_that_of_their_views_alone(networks):
    per_factor, shared = eqx.filter_jit(networks.mixer.context)(networks.obs, networks.views)
    utilities = utilities_of(networks)
    for factor in range(2):
        part = slice(factor, factor + 1)
        sliced = networks.mixer.value(jax.tree.map(lambda leaf, part=part: leaf[part], per_factor), shared, utilities[part])
        alone = mixed(replace(networks, views=networks.views[part]), utilities[part])
        np.testing.assert_allclose(sliced, alone, rtol=1e-5)
    assert not np.allclose(sliced, mixed(networks, utilities))
