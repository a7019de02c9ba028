"""Softmax among what is in view."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn.softmax import shares

LOGITS = jnp.array([[1.0, 2.0, 3.0], [0.5, -0.5, 0.0]])


def test_shares_are_a_softmax_of_what_is_in_view():
    seen = jnp.array([[True, False, True], [True, True, True]])
    np.testing.assert_allclose(shares(LOGITS, seen)[0], [1 / (1 + np.e**2), 0, np.e**2 / (1 + np.e**2)], rtol=1e-6)
    np.testing.assert_allclose(shares(LOGITS, seen)[1], np.exp(LOGITS[1]) / np.exp(LOGITS[1]).sum(), rtol=1e-6)


def test_where_nothing_is_in_view_shares_and_gradients_are_zero():
    nothing = jnp.zeros((2, 3), bool)
    assert not np.asarray(shares(LOGITS, nothing)).any()
    assert not np.asarray(jax.grad(lambda logits: shares(logits, nothing).sum())(LOGITS)).any()


def test_shares_are_as_exact_as_their_logits():
    assert shares(LOGITS.astype(jnp.bfloat16), jnp.ones((2, 3), bool)).dtype == jnp.bfloat16
