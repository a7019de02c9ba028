"""Checks of methods find methods that break their properties; tests/test_methods.py runs them on all others."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import pytest

from refil.checks import methods
from refil.checks.methods import Subject
from refil.checks.report import CheckFailed, NotApplicable
from refil.learning import td
from refil.methods import iql_attention
from refil.nn.utilities import unroll
from refil.types import Method

CONFIG = iql_attention.Config(size=8, heads=2, memory=4)


def usual_lambda_targets(batch, next_values, discount=0.99, lambda_=0.8):
    """Return TD(lambda) targets as they are usually written: from the end of the row, with a mask."""
    rewards, ends, valid = batch.rewards[..., None], batch.terminated[..., None], batch.valid[..., None]
    one_step = rewards + (1 - lambda_) * discount * jnp.where(ends, 0.0, next_values)

    def step(later, now):
        target = lambda_ * discount * later + now
        return target, target

    masked = jnp.moveaxis(jnp.where(valid, one_step, 0.0), 1, 0)
    found = jax.lax.scan(step, jnp.zeros_like(masked[0]), masked, reverse=True)[1]
    return jax.lax.stop_gradient(jnp.moveaxis(found, 0, 1))


def lambda_loss(targets):
    def loss(model, target_model, batch, key):
        q = unroll(model.utility, batch)
        next_q = td.double_q(q, unroll(target_model.utility, batch), batch)
        return td.loss(td.select_q(q, batch), targets(batch, next_q, 0.99, 0.8), batch.valid_agents)

    return loss


@cache
def iql() -> Method:
    return iql_attention.build(CONFIG, methods.SPEC)


def subject(**changes) -> Subject:
    return Subject(replace(iql(), **changes), methods.SPEC)


def fails(check, message: str, **changes) -> None:
    with pytest.raises(CheckFailed, match=message):
        check(subject(**changes), 0)


def test_td_lambda_along_the_padded_time_axis_is_found():
    message = r"packing changes the loss from \d+\.\d{4} to \d+\.\d{4} \(see td.lambda_targets"
    fails(methods.packed_equals_padded, message, loss=lambda_loss(usual_lambda_targets))


def test_td_lambda_that_stops_at_the_ends_of_episodes_passes():
    methods.packed_equals_padded(subject(loss=lambda_loss(td.lambda_targets)), 0)


def test_a_loss_without_a_mask_is_found():
    def loss(model, target_model, batch, key):
        q = td.select_q(unroll(model.utility, batch), batch)
        return ((q - batch.rewards[..., None]) ** 2).mean(), {}

    fails(methods.padding_has_no_effect, "garbage in absent slots and after the end changes the loss from", loss=loss)


def test_credit_for_absent_agents_is_found():
    def loss(model, target_model, batch, key):
        value, metrics = iql().loss(model, target_model, batch, key)
        return value + 0.1 * batch.actions.sum(), metrics

    fails(methods.absent_agents_get_no_credit, "other actions of absent agents changes the loss", loss=loss)


def test_gradients_that_are_not_finite_are_found():
    def loss(model, target_model, batch, key):
        value, metrics = iql().loss(model, target_model, batch, key)
        seen = batch.observations.visible.sum().astype(jnp.float32)
        return value / seen, metrics

    fails(methods.gradients_are_finite, "the loss is inf in a batch where nobody sees anything", loss=loss)


class Leaking(iql_attention.IqlModel):
    """A model; its utility is replaced by one that ignores what is visible."""


def blind_to_masks(key):
    model = iql().init(key)
    kind = type(model.utility)

    class Unmasked(kind):
        def encode(self, obs, views):
            full = jnp.broadcast_to(obs.full_view, views.shape)
            return super().encode(obs, full)

    return Leaking(Unmasked(**{name: getattr(model.utility, name) for name in model.utility.__dataclass_fields__}))


def test_a_utility_that_sees_what_is_invisible_is_found():
    message = "an entity that agent 0 does not see changes its Q-values by up to"
    fails(methods.invisible_entities_have_no_effect, message, init=blind_to_masks)


def test_methods_without_a_mixer_and_those_that_communicate_are_told_apart():
    with pytest.raises(NotApplicable, match="no mixer"):
        methods.mixing_is_monotonic(subject(), 0)
    with pytest.raises(NotApplicable, match="exchange messages"):
        methods.invisible_entities_have_no_effect(Subject(iql(), methods.SPEC, communicates=True), 0)


def test_every_check_has_a_name():
    assert len(methods.all_checks(subject())) == 9
