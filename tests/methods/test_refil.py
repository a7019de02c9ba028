"""REFIL's imagined value in special cases where its loss is known, and the sizes of the paper's networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.nn.utilities import unroll
from refil.training import config
from refil.types import EpisodeBatch, Model, Spec
from tests.tiny_methods import FEED_FORWARD, KINDS, assert_trees_close, built, jitted_loss, random_batch, two_models

every_kind = pytest.mark.parametrize("kind", KINDS)
fast_if_feed_forward = pytest.mark.parametrize("kind", [FEED_FORWARD, pytest.param(KINDS[1], marks=pytest.mark.slow)])


@pytest.mark.parametrize(("factorized", "baseline"), [("refil", "qmix_attention"), ("refil_vdn", "vdn_attention")])
@fast_if_feed_forward
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_with_weight_0_the_loss_is_that_of_the_method_without_an_imagined_value(factorized, baseline, kind, seed):
    method, spec = built(factorized, kind, imagined_weight=0.0)
    reference, _ = built(baseline, kind)
    inputs = *two_models(reference, seed), random_batch(spec, seed), jax.random.key(seed)
    assert_trees_close(jitted_loss(method)(*inputs), jitted_loss(reference)(*inputs), 1e-6)


@fast_if_feed_forward
def test_a_tiny_weight_gives_almost_the_loss_of_weight_0(kind):
    method, spec = built("refil", kind, imagined_weight=1e-6)
    reference, _ = built("qmix_attention", kind)
    inputs = *two_models(reference, 5), random_batch(spec, 5), jax.random.key(5)
    assert_trees_close(jitted_loss(method)(*inputs), jitted_loss(reference)(*inputs), 1e-4)


@every_kind
def test_a_single_group_of_all_entities_imagines_the_joint_value_plus_that_of_blind_agents(kind):
    """The first factor is then the real utility, and the agents of the second one see nothing."""
    method, spec = built("refil_vdn", kind, groups=1, imagined_weight=1.0)
    plain, _ = built("vdn_attention", kind)
    model, target = two_models(method, 6)
    batch = random_batch(spec, 6)
    td_targets = vdn_targets(model, target, batch)

    def mean_error(q):
        taken = (q[:, :-1] * jax.nn.one_hot(batch.actions, spec.actions)).sum(axis=(-1, -2))
        return jnp.where(batch.valid, (taken - td_targets) ** 2, 0).sum() / batch.valid.sum()

    visible = batch.observations.visible
    real, blind = unroll(model.utility, batch, jnp.stack([visible, jnp.zeros_like(visible)]))
    loss, joint_only = (each.loss(model, target, batch, jax.random.key(0))[0] for each in (method, plain))
    np.testing.assert_allclose(joint_only, mean_error(real), rtol=1e-4)
    np.testing.assert_allclose(loss, mean_error(real + blind), rtol=1e-4)


def vdn_targets(model: Model, target: Model, batch: EpisodeBatch):
    """Return the TD targets of VDN, computed step by step."""
    best = jnp.where(batch.observations.available, unroll(model.utility, batch), -jnp.inf).argmax(axis=-1)
    values = jnp.take_along_axis(unroll(target.utility, batch), best[..., None], axis=-1)[..., 0].sum(-1)
    return batch.rewards + 0.99 * jnp.where(batch.terminated, 0.0, values[:, 1:])


def test_several_samples_average_their_losses():
    one, spec = built("refil", FEED_FORWARD, imagined_weight=1.0)
    four, _ = built("refil", FEED_FORWARD, imagined_weight=1.0, samples=4)
    models, batch = two_models(one, 7), random_batch(spec, 7)
    by_one, by_four = (
        [float(jitted_loss(method)(*models, batch, jax.random.key(seed))[0]) for seed in range(64)] for method in (one, four)
    )
    assert min(by_one) <= min(by_four) <= max(by_four) <= max(by_one)
    assert np.std(by_four) < 0.75 * np.std(by_one)  # half of it, in expectation
    np.testing.assert_allclose(np.mean(by_four), np.mean(by_one), rtol=0.1)


def test_networks_have_the_number_of_parameters_of_the_papers_networks():
    def count(tree) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(tree))

    model = jax.eval_shape(config.default("group_matching", "refil").build().method.init, jax.random.key(0))
    assert (count(model.utility), count(model.mixer.weights), count(model.mixer)) == (17_731, 19_616, 39_232)
    refil, options = plugins.load("refil.methods", "refil"), config.default("3-8sz", "refil").method.options
    for features, actions, utility, mixer in (
        (38, 14, 106_574, 306_304),
        (39, 14, 106_702, 306_816),
        (46, 22, 109_142, 314_496),
    ):
        method = refil.build(options, Spec(8, 16, features, actions, 150))
        model = jax.eval_shape(method.init, jax.random.key(0))
        assert (count(model.utility), count(model.mixer)) == (utility, mixer)
