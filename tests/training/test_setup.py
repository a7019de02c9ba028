"""What can be trained, and where its chance comes from."""

import jax
import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.training import setup
from tests.tiny_runs import small


def test_every_seed_purpose_and_moment_has_a_key_of_its_own():
    seeds = jnp.arange(3)
    keys = [setup.derive_keys(seeds, purpose, jnp.full(3, moment)) for purpose in range(4) for moment in range(3)]
    words = {tuple(word) for some in keys for word in jax.random.key_data(some).tolist()}
    assert len(words) == 36


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"steps": 5}, "less than one episode"), ({"batch": 21}, "--batch 21"), ({"envs": 21}, "--envs 21")],
)
def test_impossible_schedules_are_refused(changes, words):
    with pytest.raises(RefilError, match=words):
        small(**changes).build()
