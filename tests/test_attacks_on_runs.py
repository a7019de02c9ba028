"""Samples of the attacks in `benchmarks`: kills at random moments, and damaged files."""

import signal
from functools import partial

import jax
import numpy as np
import pytest

from benchmarks import attack_files, attack_kills
from refil.storage import run_dir


@pytest.fixture(scope="module", params=attack_files.METHODS)
def untrained(request, tmp_path_factory) -> tuple[run_dir.RunDir, list]:
    """A run with all of its files, in which nothing was learned, and its peers."""
    folder, config = tmp_path_factory.mktemp("attack"), attack_files.small_config(request.param)
    run = run_dir.create(folder / "run", config)
    lines = [{"seed": seed, "env_steps": steps, "win_rate": 0.5, "seconds": 1.0} for steps in (9, 200) for seed in (0, 1)]
    run.append_metrics(lines)
    state, model = (jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), tree) for tree in attack_files.shapes(config))
    run.save_models(jax.tree.map(lambda leaf: np.stack([leaf, 2 * leaf]), model), [0, 1], config)
    run.save_checkpoint(state, config, 1.0, run.metrics_bytes)
    return run, attack_files.derive_peers(run, folder)


@pytest.mark.filterwarnings("ignore:.*(is ignored|cannot be verified)")
def test_damaged_files_are_refused_or_harmless(untrained, tmp_path):
    run, peers = untrained
    signal.alarm(300)  # a hang ends the process
    read = partial(attack_files.read_all, config=run.config)
    counts, problems = attack_files.attack(run.path, peers, tmp_path, mutations=16, seed=1, read=read)
    signal.alarm(0)
    assert problems == []
    assert counts["refused"] > 12


def test_changed_content_that_a_reader_accepts_is_found(untrained, tmp_path):
    """The attack itself works: a reader that returns something else is reported."""
    run, peers = untrained
    answers = iter(range(100))
    _, problems = attack_files.attack(run.path, peers, tmp_path, 2, 0, lambda path: {"reader": ("read", next(answers))})
    assert len(problems) == 2
    assert all("reader: silent" in problem for problem in problems)


@pytest.mark.filterwarnings("ignore:.*is ignored")
def test_stray_models_do_not_end_training(tmp_path):
    assert attack_files.attack_training(tmp_path, "vdn_pqn") == []


def test_a_sweep_into_a_foreign_folder_runs_no_foreign_code(tmp_path):
    assert attack_files.attack_sweep(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", attack_kills.RUNS)
def test_runs_killed_at_random_moments_resume_to_the_same_files(tmp_path, algorithm):
    found = attack_kills.attack(tmp_path, kills=3, seed=3, algorithms=(algorithm,))
    assert found.problems == []
    assert found.kills == 3
