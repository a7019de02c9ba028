"""Commands run in this process, and a trained run for them."""

import signal
import sys
from collections.abc import Callable, Iterator

import jax
import pytest

from refil.__main__ import main
from refil.storage import run_dir
from refil.storage.run_dir import RunDir
from refil.training import config as configs
from refil.training import trainer
from tests.tiny_runs import small


@pytest.fixture(autouse=True)
def hangups_are_not_ignored() -> Iterator[None]:
    """Undo `nohup`: tests here send SIGHUP, and their subprocesses inherit how it is handled."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDir:
    config = small(seeds=2)
    created = run_dir.create(tmp_path_factory.mktemp("runs") / "run", config)
    assert trainer.train(config, created).finished
    return created


@pytest.fixture
def refil(monkeypatch, capsys) -> Callable[..., tuple[str, str, int]]:
    """Run a command; return its output, its errors and its exit code."""

    def call(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["refil", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return printed.out, printed.err, code

    return call


@pytest.fixture
def untrained_team(tmp_path) -> Callable[[str], RunDir]:
    """Create a run on short battles with models that have learned nothing."""

    def create(env: str) -> RunDir:
        network = {"size": 8, "heads": 2, "memory": 4}
        config = configs.default(env, "vdn_attention").with_options({"limit": 10}, network)
        team = run_dir.create(tmp_path / "team", config)
        models = jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(0), 2))
        team.save_models(models, [0, 1], config)
        return team

    return create
