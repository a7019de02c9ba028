"""Our numbers are the authors' numbers, for every fixture in the folder that REFIL_GOLDEN names."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from refil import plugins
from refil.learning import losses, td
from refil.nn.utilities import unroll
from refil.training.replay import update
from refil.training.replay.config import ReplayConfig
from refil.training.setup import Setup, TrainConfig
from tests import golden_fixtures as golden
from tests.gpu import as_on_a_gpu

FOLDER = Path(os.environ.get("REFIL_GOLDEN", Path(__file__).parent / "golden"))
GRU_KERNELS = {"gru_scan", "gru_scan_with_previous", "gru_scan_backward"}
FIXTURES = sorted(path for path in FOLDER.glob("*.npz") if not path.stem.startswith(("starcraft_", "sc2_")))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.stem)
def path(request):
    if golden.method_name(request.param) not in plugins.names("refil.methods"):
        pytest.skip(f"there is no method {golden.method_name(request.param)} yet")
    return request.param


@pytest.fixture(autouse=True)
def full_precision():
    with jax.default_matmul_precision("highest"):
        yield


def test_there_are_fixtures():
    assert list(FOLDER.glob("*.npz")), f"no fixture in {FOLDER}"


def test_a_fresh_model_has_the_recorded_shapes(path):
    fixture = np.load(path)
    fresh = jax.eval_shape(golden.build(path, fixture).init, jax.random.key(0))
    recorded = golden.model(path, fixture)
    assert jax.tree.structure(fresh) == jax.tree.structure(recorded)
    assert [leaf.shape for leaf in jax.tree.leaves(fresh)] == [leaf.shape for leaf in jax.tree.leaves(recorded)]


def test_utilities_and_joint_values_are_the_recorded_ones(path):
    fixture = np.load(path)
    batch, model = golden.batch(fixture), golden.model(path, fixture)
    obs = batch.observations
    q = unroll(model.utility, batch)
    golden.assert_close(q, fixture["q"], 1e-5)
    golden.assert_close(td.select_q(q, batch), fixture["q_taken"], 1e-5)
    context = model.mixer.context(obs, obs.full_view[None])
    (value,) = losses.joint_values(model.mixer, context, q[None], batch, [losses.ALL_FACTORS])
    golden.assert_close(value[..., None], fixture["q_tot"], 1e-5)

    if "q_aux" not in fixture:
        return
    group_ids = golden.group_ids(path, fixture)
    q = unroll(model.utility, batch, losses.views(group_ids, obs.visible))
    golden.assert_close(q[0], fixture["q_in"], 1e-5)
    golden.assert_close(q[1], fixture["q_out"], 1e-5)
    context = model.mixer.context(obs, losses.views(group_ids, obs.full_view))
    (imagined,) = losses.joint_values(model.mixer, context, q, batch, [losses.ALL_FACTORS])
    golden.assert_close(imagined[..., None], fixture["q_aux"], 1e-5)


def test_mixing_views_are_the_recorded_masks(path):
    fixture = np.load(path)
    if "mixer_mask_in" not in fixture:
        pytest.skip("this method imagines nothing")
    obs = golden.batch(fixture).observations
    within, across = losses.views(golden.group_ids(path, fixture), obs.full_view)
    agents = within.shape[-2]
    np.testing.assert_array_equal(within[:, :1], fixture["mixer_mask_in"][:, :, :agents].astype(bool))
    np.testing.assert_array_equal(across[:, :1], fixture["mixer_mask_out"][:, :, :agents].astype(bool))


@pytest.mark.parametrize("fast", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "packed, as on a GPU"])
def test_three_updates_are_the_recorded_ones(path, fast, monkeypatch):
    """Plain updates, and updates with everything that makes them faster."""
    fixture = np.load(path)
    method, batch = golden.build(path, fixture), golden.batch(fixture, packed=fast)
    monkeypatch.setattr("refil.learning.losses.sample_partitions", lambda batch, *_: golden.random_groups(fixture, batch)[None])
    called = as_on_a_gpu(monkeypatch) if fast else set()
    setup = Setup(golden.RecordedEnv(), method, ReplayConfig(), TrainConfig())
    learner = update.init_learner(setup, golden.model(path, fixture), golden.model(path, fixture, "target_"))

    @jax.jit
    def step(learner):
        gradient, metrics = update.gradient(setup, learner, batch, jax.random.key(0))
        return update.apply_gradient(setup, learner, gradient), metrics

    for loss, norm in zip(fixture["loss"], fixture["grad_norm"], strict=True):
        learner, metrics = step(learner)
        np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
        np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-5)
    golden.assert_models_close(learner.model, golden.model(path, fixture, "after/"), 1e-4)
    pooling, recurrent = "pooling" in path.stem, "agent/rnn.weight_hh" in fixture
    kernels = ({"attend"} if not pooling else set()) | (GRU_KERNELS if recurrent else set())
    assert called == (kernels if fast else set())
