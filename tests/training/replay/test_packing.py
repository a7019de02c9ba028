"""Folding changes where episodes lie, never what is learned from them."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout
from refil.nn.kernels import overlap
from refil.training import config
from refil.training.replay import packing
from tests.test_methods import KINDS, every_method, small

SMALL, LARGE = packing.Size(100, 4), packing.Size(208, 10)


@pytest.fixture(scope="module", params=[False, True], ids=["feed-forward", "recurrent"])
def played(request):
    """Sixteen short episodes of a tiny game, and what is learned from them unfolded."""
    default = config.default("group_matching", "refil")
    small = {"size": 8, "heads": 2, "memory": 4, "mixing": 4, "recurrent": request.param, "last_action": True}
    options = replace(
        default.options,
        env=replace(default.options.env, agents=3, cells=2, horizon=24),
        method=replace(default.options.method, **small),
    )
    loop = replace(default, options=options).build()
    models = jax.vmap(loop.method.init)(jax.random.split(jax.random.key(0), 1))
    tasks = jnp.zeros((1, 16), jnp.int32)
    play = jax.jit(partial(rollout.collect, loop.env))
    batch = play(models, tasks, jnp.ones(1), jax.random.split(jax.random.key(1), 1))
    return loop, *jax.tree.map(lambda leaf: leaf[0], (models, batch))


def as_long_as(batch, lengths):
    """The same batch with episodes of these lengths."""
    return replace(batch, valid=jnp.arange(24) < jnp.asarray(lengths)[:, None])


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("longest", [None, 24])
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_folded_batch_has_the_same_loss_and_gradient(played, size, longest, side_by_side, monkeypatch):
    monkeypatch.setattr(overlap, "waits", lambda: side_by_side)
    loop, model, batch = played
    if longest:  # one that fills a row alone
        batch = replace(batch, valid=batch.valid.at[3].set(True))
    places = packing.arrange(batch.valid)
    assert packing.fits(places, size)

    @partial(jax.jit, static_argnums=1)
    def loss_and_gradient(model, size):
        episodes = rollout.recall(loop.env, batch, places, size)
        return jax.value_and_grad(lambda model: loop.method.loss(model, model, episodes, jax.random.key(2))[0])(model)

    plain, folded = loss_and_gradient(model, None), loss_and_gradient(model, size)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6), folded, plain)


unrolled = jax.jit(lambda utility, obs: utility.unroll(obs, obs.visible[None], jax.random.key(0))[0][0])


@pytest.fixture(scope="module")
def laid_out(played):
    """What is seen in each episode, alone on its row and folded; and how many instants each has."""
    loop, _, batch = played
    places = packing.arrange(batch.valid)
    plain, folded = (rollout.recall(loop.env, batch, places, size).observations for size in (None, SMALL))
    return loop.env.spec, plain, folded, np.asarray(places.instants)


@every_method
@pytest.mark.parametrize("played", [True], indirect=True, ids=["recurrent"])
def test_utilities_remember_nothing_of_the_episode_before(laid_out, name):
    spec, plain, folded, instants = laid_out
    method = small(name, KINDS[1], spec)
    utility = jax.jit(lambda key: method.init(key).utility)(jax.random.key(4))
    alone, together = (np.asarray(unrolled(utility, obs)) for obs in (plain, folded))
    on_a_line = np.concatenate([episode[:count] for episode, count in zip(alone, instants, strict=True)])
    np.testing.assert_allclose(together[0, : len(on_a_line)], on_a_line, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("played", [True], indirect=True, ids=["recurrent"])
def test_what_networks_leave_to_chance_is_the_same_wherever_an_instant_lies(laid_out):
    spec, plain, folded, instants = laid_out
    utility = small("roma", KINDS[1], spec, sample_roles=True).init(jax.random.key(4)).utility
    alone, together = (np.asarray(unrolled(utility, obs)) for obs in (plain, folded))
    on_a_line = np.concatenate([episode[:count] for episode, count in zip(alone, instants, strict=True)])
    np.testing.assert_allclose(together[0, : len(on_a_line)], on_a_line, rtol=1e-4, atol=1e-6)
    still = unrolled(replace(utility, sampled=False), folded)
    assert not np.allclose(together, still)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_every_step_is_there_once(played, size):
    _, _, batch = played
    folded, number, first, turns = packing.fold(batch, packing.arrange(batch.valid), size)
    assert folded.valid.shape == (1, size.instants - 1)
    assert folded.valid.sum() == batch.valid.sum()
    assert first.sum() == 16
    for episode in range(16):
        mine = np.asarray(number[:, :-1] == episode) & np.asarray(folded.valid)
        np.testing.assert_array_equal(np.asarray(folded.rewards)[mine], batch.rewards[episode][batch.valid[episode]])
        np.testing.assert_array_equal(np.asarray(folded.actions)[mine], batch.actions[episode][batch.valid[episode]])
    taken = np.asarray(turns.turn)[np.asarray(turns.turn) < size.rows * 25]
    assert len(set(taken)) == len(taken) == batch.valid.sum() + 16


@pytest.mark.parametrize(
    ("lengths", "rows", "fit"),
    [
        ([24] * 16, 8, False),  # 25 instants each, 25 places a row
        ([24] * 16, 16, True),
        ([11] * 16, 8, True),  # 12 instants, two on a row
        ([12] * 16, 8, False),
        ([24, 24, *[2] * 14], 4, True),  # two rows for the long ones, two for 42 instants of short ones
        ([24, 24, 24, *[2] * 13], 4, False),
    ],
)
def test_episodes_fit_if_their_instants_do(played, lengths, rows, fit):
    _, _, batch = played
    places, instants = packing.arrange(as_long_as(batch, lengths).valid), sum(lengths) + 16
    assert packing.fits(places, packing.Size(instants, rows)) == fit
    assert not packing.fits(places, packing.Size(instants - 1, rows))
    taken = {
        (int(row), int(start) + t)
        for row, start, n in zip(places.row, places.start, places.instants, strict=True)
        for t in range(n)
    }
    assert len(taken) == instants
    assert all(0 <= place < 25 for _, place in taken)


def test_shares_of_a_batch_are_whole_instants_of_each_episode_and_fewer_than_it_has():
    assert packing.sizes(32, 150, (0.625, 0.45)) == ((32 * 68, 16), (32 * 95, 28))
    assert packing.sizes(5, 9, (0.5, 0.45)) == ((25, 4),)
    assert packing.sizes(2, 3, (0.0, 0.6, 1.0)) == ((4, 2), (6, 2))
    assert packing.sizes(1, 150, (0.005,)) == ((2, 1),)  # no episode has fewer
    assert packing.sizes(7, 150, ()) == ()
