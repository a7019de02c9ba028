"""Environments that change another one."""

from dataclasses import replace

import jax
import numpy as np

from refil.types import Env, Observation
from refil.wrappers import EnvWrapper, MaskDead, Shortened
from tests import tiny_envs

ENV = tiny_envs.build(tiny_envs.Config())


class Mortal(tiny_envs.Counting):
    """The counting environment, whose third entity is dead."""

    def observe(self, state) -> Observation:
        seen = super().observe(state)
        return replace(seen, alive=seen.present.at[2].set(False))


def test_a_wrapper_behaves_like_its_environment():
    wrapped, key = EnvWrapper(ENV), jax.random.key(0)
    assert isinstance(wrapped, Env)
    assert (wrapped.spec, wrapped.task_names) == (ENV.spec, ENV.task_names)
    state = wrapped.reset(2, key)
    actions = jax.numpy.zeros(2, int)
    own, expected = ((env.observe(state), env.step(state, actions, key)) for env in (wrapped, ENV))
    jax.tree.map(np.testing.assert_array_equal, own, expected)


def test_optional_attributes_are_those_of_the_environment():
    class Named(tiny_envs.Counting):
        feature_names = ("one", "two")

    assert EnvWrapper(Named(ENV.spec, ENV.tasks)).feature_names == ("one", "two")
    assert not hasattr(EnvWrapper(ENV), "feature_names")


def test_dead_entities_are_absent():
    masked = MaskDead(Mortal(ENV.spec, ENV.tasks))
    obs = masked.observe(masked.reset(2, jax.random.key(0)))
    assert obs.present.tolist() == [True, True, False]
    assert not obs.visible[:, 2].any()
    assert masked.spec == ENV.spec


def test_episodes_can_be_shortened():
    assert Shortened(ENV, 2).spec == replace(ENV.spec, horizon=2)
