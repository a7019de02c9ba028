"""Mistakes in losses, utilities, optimizers and target updates are found by tracing an update."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import optax
import pytest

from refil.errors import RefilError
from refil.training import contracts
from refil.training.onpolicy import loop as on_policy_loop
from refil.training.replay import loop
from refil.training.setup import Setup
from tests import tiny_streams
from tests.tiny_runs import small


@cache
def setup() -> Setup:
    return small("vdn_attention").build()


def refused(message: str, **changes) -> None:
    with pytest.raises(RefilError, match=f"^mine: {message}"):
        contracts.check_learning(setup()._replace(method=replace(setup().method, **changes)), "mine")


def with_metrics(**metrics):
    def loss(*given):
        value, found = setup().method.loss(*given)
        return value, found | {name: make(value) for name, make in metrics.items()}

    return loss


def broken(model, target_model, batch, key):
    return batch.rewards @ batch.rewards, {}


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            lambda *given: setup().method.loss(*given)[0],
            r"loss\(\) returned an array of shape \(\); it must return \(loss, metrics\)",
        ),
        (
            lambda *given: (setup().method.loss(*given)[0], 1.0),
            r"loss\(\) returned \(an array of shape \(\), an array of shape",
        ),
        (
            lambda model, *rest: (model.utility.head.bias, {}),
            r"loss\(\) returned a loss with shape \(3,\); it must be a scalar",
        ),
        (
            with_metrics(seed=lambda value: value),
            r"loss\(\) returned a metric 'seed'; refil logs .*episodes.*won_length_mean itself",
        ),
        (with_metrics(loss=lambda value: value), r"loss\(\) returned a metric 'loss'"),
        (
            with_metrics(many=lambda value: jnp.zeros(3)),
            r"loss\(\) returned a metric 'many' with shape \(3,\); it must be a scalar",
        ),
        (broken, r"loss\(\) failed at .*test_learning.py:\d+ in broken\(\): TypeError: dot_general"),
    ],
)
def test_mistakes_in_losses_are_named(loss, message):
    refused(message, loss=loss)


def test_mistakes_in_optimizers_and_target_updates_are_named():
    refused(r"optimizer\(\) returned a tuple of 0; it must return an optax optimizer", optimizer=lambda config: ())
    refused(r"target_update\(\) returned another type of model", target_update=lambda target, model, due: model.utility)


def refused_on_policy(message: str, **changes) -> None:
    setup = tiny_streams.small().build()
    with pytest.raises(RefilError, match=f"^mine: {message}"):
        contracts.check_learning(setup._replace(method=replace(setup.method, **changes)), "mine")


def broken_on_policy(model, batch, targets):
    return targets @ targets, {}


def test_mistakes_in_on_policy_methods_are_named():
    method = tiny_streams.small().build().method
    refused_on_policy(r"views\(\) returned shape \(\d, \d\); it must be \[views, agents", views=lambda visible, groups: visible)
    refused_on_policy(
        r"views\(\) returned .*type float32; it must be of bool", views=lambda visible, groups: visible[None] * 1.0
    )
    refused_on_policy(
        r"greedy_values\(\) returned shape \(2, \d+\); it must be \[batch, timesteps\]",
        greedy_values=lambda model, batch: method.greedy_values(model, batch)[:, 1:],
    )
    refused_on_policy(
        r"loss\(\) returned an array of shape \(\); it must return \(loss, metrics\)",
        loss=lambda *given: method.loss(*given)[0],
    )
    refused_on_policy(r"loss\(\) failed at .*in broken_on_policy\(\): TypeError: dot_general", loss=broken_on_policy)
    contracts.check_learning(tiny_streams.small().build(), "mine")


def test_valid_methods_pass():
    own = {"optimizer": lambda config: optax.adam(config.lr), "target_update": lambda target, model, due: target}
    contracts.check_learning(setup()._replace(method=replace(setup().method, **own)), "mine")


@pytest.mark.parametrize(("setup", "loop"), [(setup, loop), (tiny_streams.small().build, on_policy_loop)])
def test_reserved_names_are_those_that_the_trainer_writes(setup, loop):
    state = jax.eval_shape(lambda: loop.init(setup()))
    scalars = jax.eval_shape(lambda state: loop.scalars(setup(), state), state)
    assert {
        "seed",
        "env_steps",
        "episodes",
        "updates",
        "seconds",
        *scalars,
        "win_rate",
        "return_mean",
        "length_mean",
        "won_length_mean",
    } <= contracts.RESERVED
    assert set(state.counters.metrics) - {"td_loss", "target_variance", "imagined_loss"} <= contracts.RESERVED
