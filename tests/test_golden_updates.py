"""Our numbers are the authors' numbers, for every fixture in the folder that REFIL_GOLDEN names."""

import os
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from refil import plugins
from refil.learning import partitions, td
from refil.training.replay import learner as learn
from tests import parity
from tests.gpu import as_on_a_gpu

FOLDER = Path(os.environ.get("REFIL_GOLDEN", Path(__file__).parent / "golden"))
FIXTURES = sorted(path for path in FOLDER.glob("*.npz") if not path.stem.startswith("starcraft_"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.stem)
def path(request):
    if parity.method_name(request.param) not in plugins.names("refil.methods"):
        pytest.skip(f"there is no method {parity.method_name(request.param)} yet")
    return request.param


@pytest.fixture(autouse=True)
def full_precision():
    with jax.default_matmul_precision("highest"):
        yield


def test_there_are_fixtures():
    assert list(FOLDER.glob("*.npz")), f"no fixture in {FOLDER}"


def test_a_fresh_model_has_the_recorded_shapes(path):
    fixture = np.load(path)
    fresh = jax.eval_shape(parity.build(path, fixture).init, jax.random.key(0))
    recorded = parity.model(path, fixture)
    assert jax.tree.structure(fresh) == jax.tree.structure(recorded)
    assert [leaf.shape for leaf in jax.tree.leaves(fresh)] == [leaf.shape for leaf in jax.tree.leaves(recorded)]


def test_utilities_and_values_are_the_recorded_ones(path):
    fixture = np.load(path)
    episodes, model = parity.episodes(fixture), parity.model(path, fixture)
    obs, now = episodes.observations, jax.tree.map(lambda leaf: leaf[:, :-1], episodes.observations)
    real, _ = model.utility.unroll(obs, obs.visible[None])
    parity.assert_close(real[0], fixture["q"], 1e-5)
    taken = td.chosen(real[:, :, :-1], episodes.actions)
    parity.assert_close(taken[0], fixture["q_taken"], 1e-5)
    parity.assert_close(
        model.mixer.values(model.mixer.read(now, now.full_view[None]), taken, [slice(None)])[0][..., None],
        fixture["q_tot"],
        1e-5,
    )

    if "q_aux" not in fixture:
        return
    sides = parity.sides(path, fixture)
    imagined, _ = model.utility.unroll(obs, partitions.views(sides, obs.visible))
    parity.assert_close(imagined[0], fixture["q_in"], 1e-5)
    parity.assert_close(imagined[1], fixture["q_out"], 1e-5)
    taken = td.chosen(imagined[:, :, :-1], episodes.actions)
    read = model.mixer.read(now, partitions.views(sides[:, :-1], now.full_view))
    (value,) = model.mixer.values(read, taken, [slice(None)])
    parity.assert_close(value[..., None], fixture["q_aux"], 1e-5)


def test_mixing_views_are_the_recorded_masks(path):
    fixture = np.load(path)
    if "mixer_mask_in" not in fixture:
        pytest.skip("this method imagines nothing")
    obs = parity.episodes(fixture).observations
    within, across = partitions.views(parity.sides(path, fixture), obs.full_view)
    agents = within.shape[-2]
    np.testing.assert_array_equal(within[:, :1], fixture["mixer_mask_in"][:, :, :agents].astype(bool))
    np.testing.assert_array_equal(across[:, :1], fixture["mixer_mask_out"][:, :, :agents].astype(bool))


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "folded, as on a GPU"])
def test_three_updates_are_the_recorded_ones(path, fast, monkeypatch):
    """Plain ones, and with everything that makes them faster."""
    fixture = np.load(path)
    method, episodes = parity.build(path, fixture), parity.episodes(fixture, folded=fast)
    monkeypatch.setattr("refil.learning.losses.draw_sides", lambda episodes, *_: parity.drawn(fixture, episodes)[None])
    called = as_on_a_gpu(monkeypatch) if fast else set()
    optimiser = learn.rmsprop(5e-4, 10.0)
    learner = learn.learner(parity.model(path, fixture), parity.model(path, fixture, "target_"), optimiser)
    update = jax.jit(partial(learn.update, method, optimiser))
    for loss, norm in zip(fixture["loss"], fixture["grad_norm"], strict=True):
        learner, metrics = update(learner, episodes, jax.random.key(0))
        np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
        np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-5)
    parity.assert_models_close(learner.model, parity.model(path, fixture, "after/"), 1e-4)
    pooling, recurrent = "pooling" in path.stem, "agent/rnn.weight_hh" in fixture
    kernels = ({"attend"} if not pooling else set()) | ({"gru_scan", "gru_scan_backward"} if recurrent else set())
    assert called == (kernels if fast else set())
