"""Attention weights of utilities."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn import inspect
from refil.training import config
from refil.types import Observation


def test_utilities_with_one_attention_layer_have_weights():
    for method, expected in (("vdn_attention", True), ("qmix_mean_pooling", False), ("vdn_pqn", True), ("refil_updet", False)):
        setup = config.default("group_matching", method).with_options({"agents": 3}).build()
        model = jax.eval_shape(setup.method.init, jax.random.key(0))
        assert inspect.has_attention(model.utility) == expected, method


def test_weights_are_a_distribution_over_what_is_visible():
    setup = config.default("group_matching", "vdn_attention").with_options({"agents": 3}, {"size": 8, "heads": 2}).build()
    utility = setup.method.init(jax.random.key(0)).utility
    visible = jnp.array([[True, False, True], [False, True, False], [True, True, True]])
    obs = setup.env.observe(setup.env.reset((), jax.random.key(1)))
    weights = inspect.attention_weights(utility, Observation(obs.entities, obs.present, visible, obs.available))
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)
    assert not np.asarray(weights)[:, ~np.asarray(visible)].any()
