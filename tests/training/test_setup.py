"""The options of training, and what its random keys are for."""

import jax
import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.rollout import derive_keys
from refil.training import setup
from refil.training.setup import EVALUATE, INIT, LEARN, PLAY, TrainConfig
from tests.tiny_runs import small


def test_a_seed_has_different_keys_for_every_purpose():
    purposes = (INIT, PLAY, LEARN, EVALUATE)
    keys = [derive_keys(jnp.arange(2), purpose, jnp.zeros(2, int)) for purpose in purposes]
    assert len({tuple(words) for some in keys for words in jax.random.key_data(some).tolist()}) == 2 * len(purposes)


def test_a_setup_holds_what_was_built_and_computes_in_float32_unless_told_otherwise():
    config = small(steps=300)
    built = config.build()
    assert isinstance(built, setup.Setup)
    assert (built.algorithm, built.train) == (config.algorithm, config.train)
    assert built.compute_dtype == jnp.float32
    assert small(precision="bf16").build().compute_dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"steps": 5}, "less than one episode"), ({"batch": 21}, "algorithm.batch 21"), ({"envs": 21}, "train.envs 21")],
)
def test_impossible_sizes_are_refused(changes, message):
    with pytest.raises(RefilError, match=message):
        small(**changes).build()


def test_defaults_without_an_environment_are_neutral():
    assert (TrainConfig().steps, TrainConfig().eval_every, TrainConfig().eval_episodes) == (1_000_000, 10_000, 100)
