"""IQL against its definition in NumPy."""

import jax
import numpy as np
import pytest

from tests.methods import by_hand
from tests.tiny_methods import RECURRENT, built, two_models


def test_the_loss_of_iql_is_the_mean_over_present_agents():
    method, spec = built("iql_attention", RECURRENT)
    model, target = two_models(method, 7)
    batch = by_hand.batch_with_two_episodes_in_a_row(spec, 7)
    errors = []
    for number, obs in enumerate(by_hand.rows(batch.observations)):
        q, later = (by_hand.q_values(net.utility, obs) for net in (model, target))
        taken = by_hand.picked(q[:-1], batch.actions[number])
        next_q = by_hand.picked(later, by_hand.best_actions(q, obs))[1:]
        for time in np.flatnonzero(batch.valid[number]):
            continues = not batch.terminated[number, time]
            for agent in np.flatnonzero(obs.present[time, :3]):
                td_target = batch.rewards[number, time] + 0.99 * continues * next_q[time, agent]
                errors.append(taken[time, agent] - td_target)
    loss = jax.jit(method.loss)(model, target, batch, jax.random.key(0))[0]
    assert float(loss) == pytest.approx(np.square(errors).mean(), rel=1e-4)
