"""The environment of the real game: its names, options and limits."""

import json
import socket

import jax
import numpy as np
import pytest

from refil import datasets, plugins, recording
from refil.cli import evaluate, record
from refil.envs import sc2
from refil.envs.sc2 import env as sc2_env
from refil.envs.sc2 import process
from refil.envs.sc2.peer import installation
from refil.envs.sc2.peer.battle import Simulator
from refil.envs.sc2.peer.faults import Fault
from refil.envs.sc2.peer.server import Peer
from refil.envs.sc2.process import HOST
from refil.envs.sc2.records import GameCrashedError, InstallError
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config as SimulatorConfig
from refil.errors import RefilError
from refil.hosted import LostError
from refil.storage import run_dir
from refil.training import config, contracts, trainer
from tests.envs.sc2.in_process import InProcess


def loaded(name: str = "sc2:3-8sz", **options):
    module = plugins.load("refil.envs", name)
    return module.build(module.Config(**options))


def test_the_environment_has_the_features_actions_and_tasks_of_the_simulator():
    env, simulator = loaded(), starcraft.build(scenarios.SCENARIOS["3-8sz"], SimulatorConfig())
    contracts.check_env(env, "sc2:3-8sz")
    assert env.spec == simulator.spec
    assert env.feature_names == simulator.feature_names
    assert env.task_names == simulator.task_names
    assert env.reward_divisor == simulator.reward_divisor


def test_options_of_the_simulator_apply():
    env = loaded("sc2:3s5z_vs_3s6z", tags=12, limit=30, healers_alone_lose=False)
    assert env.spec.horizon == 30
    assert env.spec.actions == 6 + 12
    assert not env.config.healers_alone_lose


def test_names_have_a_prefix():
    assert "sc2:3-8MMM" in plugins.names("refil.envs")
    assert all(sc2.summary(name).startswith("StarCraft:") for name in sc2.names())
    assert sc2.serve("3-8sz") is None
    with pytest.raises(RefilError, match="sc2: is followed by a task set, a map or two armies: 3-8sz"):
        plugins.load("refil.envs", "sc2:nothing")


def test_compiled_programs_refuse_to_play():
    env = loaded()
    with pytest.raises(RefilError, match="cannot run inside a compiled program"):
        env.reset(env.tasks[0], jax.random.key(0))
    with pytest.raises(Exception, match="cannot run inside a compiled program"):
        jax.block_until_ready(jax.jit(env.reset)(env.tasks[0], jax.random.key(0)))


def test_what_does_not_apply_is_refused_in_a_sentence():
    with pytest.raises(RefilError, match="sc2:3-8sz plays real games, whole episodes at a time"):
        config.default("sc2:3-8sz", "refil_pqn").build()
    chosen = config.default("sc2:3-8sz", "refil").with_options(compact_checkpoints=True)
    with pytest.raises(RefilError, match="compact_checkpoints simulates episodes again, which sc2:3-8sz cannot do"):
        chosen.build()


def test_a_missing_game_is_noticed_before_anything_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("SC2PATH", str(tmp_path / "nowhere"))
    chosen = config.default("sc2:3-8sz", "refil")
    chosen.build()  # a team can be loaded without the game
    with pytest.raises(InstallError, match="which is not a folder"):
        chosen.build(dry_run=True)


@pytest.fixture
def games(monkeypatch):
    """Replace the games of every environment of one Marine against one; return them."""
    simulator, made = Simulator(starcraft.build(scenarios.custom("1m"), SimulatorConfig())), []
    simulator.compile()

    def launch(_: object, __: object, number: int) -> InProcess:
        made.append(InProcess(simulator, number, crashes=(7,) if number == 1 and len(made) < 2 else ()))
        return made[-1]

    monkeypatch.setattr(sc2_env, "_launch", launch)
    return made


def chosen_config(steps: int) -> config.RunConfig:
    sizes = {"size": 8, "heads": 2, "mixing": 4}
    fast = {"envs": 2, "batch": 4, "buffer": 16, "pack": (), "eval_episodes": 3, "eval_every": 40, "log_every": 2}
    default = config.default("sc2:1m", "refil")
    sizes = {name: value for name, value in sizes.items() if hasattr(default.method.options, name)}
    return default.with_options({"limit": 10, "games": 2}, sizes, steps=steps, **fast)


def test_training_survives_a_crash_and_resumes_and_its_team_plays_elsewhere(games, tmp_path, caplog, capsys, monkeypatch):
    path = tmp_path / "run"
    first = trainer.train(chosen_config(60), run_dir.create(path, chosen_config(60)))
    assert first.finished
    assert [record.getMessage() for record in caplog.records].count(
        "An episode was lost and is played again: the test lets it crash"
    ) == 1
    steps = max(line["env_steps"] for line in first.metrics)
    again = trainer.train(chosen_config(120), run_dir.open_run(path), resume=True)
    assert again.finished
    assert again.metrics[0]["env_steps"] > steps
    updates = [line["updates"] for line in run_dir.open_run(path).metrics()]
    assert updates == sorted(updates)
    assert updates[-1] > 4
    assert all(np.isfinite(line["loss"]) for line in again.metrics if line["loss"] is not None)
    evaluate.main([str(path), "--env", "1m", "--episodes", "7", "--json"])  # a team that was trained in the game
    assert json.loads(capsys.readouterr().out)["episodes"] == 7
    monkeypatch.setattr(recording, "CHUNK", 2)
    record.main(["sc2:1m", "--episodes", "2", "--out", str(tmp_path / "data.npz")])
    assert len(datasets.read_dataset(tmp_path / "data.npz")) == 2
    assert max(game.resets for game in games) > 0


def test_a_team_of_the_simulator_plays_the_game(monkeypatch, capsys):
    simulator = Simulator(starcraft.build(scenarios.SCENARIOS["3-8sz"], SimulatorConfig()))
    simulator.compile()
    made = []
    monkeypatch.setattr(sc2_env, "_launch", lambda _, __, number: made.append(InProcess(simulator, number)) or made[-1])
    evaluate.main(["3-8sz", "--env", "sc2:3-8sz", "--episodes", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3-8sz in sc2:3-8sz: fresh evaluation, 2 greedy episodes"
    assert lines[2] == "  (the rates on its card are those in 3-8sz)"
    assert "0.981" in lines[3]  # of all tasks, on its card
    assert [game.resets for game in made] == [1, 1]


FAULTS = (
    Fault("hang", "step", 6, game=0),
    Fault("garbage", "observation", 12, game=1),
    Fault("end", "step", 8, game=2),
    Fault("refuse", "debug", 3, game=3),
)
LOST = {  # an episode is played again, or a reset launches the game again
    "An episode was lost and is played again: StarCraft II did not answer the request step within 5 s": 1,
    "An episode was lost and is played again: StarCraft II answered the request observation with something": 1,
    "An episode was lost and is played again: the game of StarCraft II has ended": 1,
    "A game failed before a battle and is launched again (1 of 2): StarCraft II refused the request debug": 1,
    "A game failed before a battle and is launched again (1 of 2): StarCraft II ended with exit code 1 before": 1,
}


def test_training_survives_hangs_garbage_ends_refusals_and_ports_in_use(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("SC2PATH", str(tmp_path / "game"))
    with (
        Peer(starcraft.build(scenarios.custom("1m"), SimulatorConfig()), FAULTS) as peer,
        socket.create_server((HOST, 0)) as busy,
    ):
        installation.write(tmp_path / "game", peer.port)
        ports, free_port = [busy.getsockname()[1]], process.free_port
        monkeypatch.setattr(process, "free_port", lambda: ports.pop() if ports else free_port())
        chosen = chosen_config(60).with_options({"limit": 10, "games": 2, "timeout": 5}, eval_every=1000)
        result = trainer.train(chosen, run_dir.create(tmp_path / "run", chosen))
    assert result.finished
    texts = [record.getMessage() for record in caplog.records]
    assert {start: sum(text.startswith(start) for text in texts) for start in LOST} == LOST
    assert len(peer.sessions) == 2 + 4  # every failure in a session costs another one
    result.setup.env.games.close()


@pytest.mark.slow
def test_training_with_many_games_in_processes_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SC2PATH", str(tmp_path / "game"))
    with Peer(starcraft.build(scenarios.SCENARIOS["3-8sz"], SimulatorConfig())) as peer:
        installation.write(tmp_path / "game", peer.port)
        fast = {"steps": 600, "envs": 8, "batch": 4, "buffer": 32, "eval_episodes": 8, "eval_every": 10_000, "log_every": 8}
        chosen = config.default("sc2:3-8sz", "refil").with_options({"timeout": 120}, {"size": 16, "mixing": 8}, **fast)
        result = trainer.train(chosen, run_dir.create(tmp_path / "run", chosen))
    assert result.finished
    assert len(peer.sessions) == 8
    result.setup.env.games.close()
    last = result.metrics[-1]
    assert last["env_steps"] >= 600
    assert last["env_steps"] / last["seconds"] > 1  # steps per second, in all


def test_a_game_that_cannot_be_launched_is_an_error_that_saves(monkeypatch, games):
    def fail(game: InProcess):
        raise GameCrashedError("no license")

    monkeypatch.setattr(InProcess, "start", fail)
    with pytest.raises(LostError, match="a game cannot start: no license"):
        trainer.train(chosen_config(60))


def test_a_game_that_cannot_be_played_saves_the_training(games, tmp_path):
    path, made = tmp_path / "run", games

    def give_up(line) -> None:
        for game in made:
            game.crashes = tuple(range(100_000))

    with pytest.raises(LostError, match=r"lost 3 times in a row.*crash\. Training until then is saved; resume=True"):
        trainer.train(chosen_config(500), run_dir.create(path, chosen_config(500)), loggers=[give_up])
    saved = run_dir.open_run(path)
    assert saved.has_checkpoint
    assert saved.saved_metrics()[-1]["env_steps"] > 0
