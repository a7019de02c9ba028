"""Initial weights."""

import jax
import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import initial, run_dir
from refil.training import trainer
from tests.tiny_runs import small


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run with models of two seeds, which have learned nothing."""
    config = small(seed=9, seeds=2)
    run = run_dir.create(tmp_path_factory.mktemp("runs") / "trained", config)
    run.save_models(jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(5), 2)), [9, 10], config)
    return run


def model(run, seed):
    return run.load_model(seed, jax.eval_shape(small().build().method.init, jax.random.key(0)))


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_folder_selects_its_first_seed_and_a_file_its_own(trained):
    setup = small().build()
    equal(initial.load(trained.path, setup), model(trained, 9))
    equal(initial.load(trained.path / "model_seed_10.safetensors", setup), model(trained, 10))


def test_weights_that_do_not_fit_are_refused(trained, tmp_path):
    other = small().with_options(method_options={"size": 16}).build()
    with pytest.raises(RefilError, match=r"cannot start from these weights: .*model_seed_9.* has float32\[.*, not float32\["):
        initial.load(trained.path, other)
    with pytest.raises(RefilError, match=r"cannot start from a team: it has .* for .*, and this run needs float32\["):
        initial.check(model(trained, 9), other, "a team")
    initial.check(model(trained, 9), small().build(), "a team")
    with pytest.raises(RefilError, match=r"cannot start from .*: it has no model"):
        initial.load(tmp_path, other)
    with pytest.raises(RefilError, match=r"cannot read .*nowhere"):
        initial.load(tmp_path / "nowhere", other)


def test_a_run_remembers_its_weights_until_it_has_a_checkpoint(trained, tmp_path):
    """A start that is killed before its first checkpoint starts again from the same weights, also if they are gone."""
    config = small(steps=12, batch=16)  # too few episodes for an update
    weights = model(trained, 10)
    run = run_dir.create(tmp_path / "run", config, weights)
    assert trainer.train(config, run, resume=True).finished
    equal(model(run, 0), weights)


def test_a_new_run_does_not_start_from_what_an_earlier_attempt_left(trained, tmp_path):
    run = run_dir.create(tmp_path / "run", small(), model(trained, 9))
    assert initial.stored(run.path, small().build()) is not None
    run = run_dir.create(tmp_path / "run", small())
    assert initial.stored(run.path, small().build()) is None


def test_a_run_whose_weights_are_gone_or_others_does_not_start_from_random_ones(trained, tmp_path):
    config = small(steps=12, batch=16)
    run = run_dir.create(tmp_path / "run", config, model(trained, 9))
    (run.path / initial.INIT).write_bytes((trained.path / "model_seed_10.safetensors").read_bytes())
    with pytest.raises(RefilError, match=r"init.safetensors is not the model that this run started from"):
        trainer.train(config, run, resume=True)
    (run.path / initial.INIT).unlink()
    with pytest.raises(RefilError, match=r"init.safetensors, the model that this run starts from, is gone"):
        trainer.train(config, run, resume=True)


def test_weights_of_version_0_2_0_have_no_checksum(trained, tmp_path):
    run = run_dir.create(tmp_path / "run", small(), model(trained, 9))
    (run.path / initial.MARKER).unlink()
    equal(initial.stored(run.path, small().build()), model(trained, 9))


def test_weights_that_are_not_finite_are_refused(trained, tmp_path):
    broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), model(trained, 9))
    initial.store(tmp_path, broken)
    with pytest.raises(RefilError, match=r"cannot start from these weights: .*init.safetensors cannot be used: .* not finite"):
        initial.stored(tmp_path, small().build())
