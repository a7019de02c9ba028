"""The random play that `refil bench --random` times."""

import jax

from refil.cli import _measure
from tests import tiny_envs


def test_episodes_restart_and_everything_observed_and_gained_is_summed():
    class OneStep(tiny_envs.Counting):
        tasks = (1,)
        task_names = ("1 step",)

    env = OneStep(tiny_envs.build(tiny_envs.Config()).spec, (1,))
    env = OneStep(env.spec, tasks=jax.numpy.array([1]), task_names=("1 step",))
    total = _measure.play_random(env, 3, 5, jax.random.key(0))
    # Every step starts at time 0 with entities 0 and 2 present: their features sum to 2, 2 pairs are visible, and 1 is gained.
    assert float(total) == 3 * 5 * (2 + 2 + 1)
