"""The config of a run."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from refil.envs import group_matching
from refil.errors import RefilError
from refil.storage import run_dir
from refil.training import config as configs
from refil.training import flags
from refil.wrappers import MaskDead
from tests.tiny_runs import small

RESULTS = Path(__file__).parent.parent.parent / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.rglob("config.json"))
USER_ENV = '"""Mine."""\nfrom tests.tiny_envs import Config, build\n'


def test_environments_choose_the_papers_settings():
    config = configs.default("group_matching", "refil")
    assert (config.algorithm.buffer, config.algorithm.epsilon_steps) == (2000, 5000)
    assert (config.train.eval_every, config.train.eval_episodes) == (10_000, 80)
    method = config.method.options
    assert (method.size, method.recurrent, method.mixer, method.last_action) == (64, False, "linear", False)
    battle = configs.default("3-8sz", "refil")
    assert (battle.train.steps, battle.algorithm.buffer, battle.algorithm.epsilon_steps) == (10_000_000, 5000, 500_000)
    assert (battle.method.options.size, battle.method.options.recurrent, battle.method.options.mixer) == (
        128,
        True,
        "attention",
    )


def test_group_matching_gives_on_policy_agents_their_own_embedding():
    chosen = {env: configs.default(env, "refil_pqn").method.options.own_embedding for env in ("group_matching", "3-8sz")}
    assert chosen == {"group_matching": True, "3-8sz": False}


def test_an_environment_without_defaults_gets_neutral_ones(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(USER_ENV)
    config = configs.default(str(path), "refil")
    assert (config.train.steps, config.train.eval_every, config.train.eval_episodes) == (1_000_000, 10_000, 100)
    assert (config.algorithm.buffer, config.algorithm.epsilon_steps, config.algorithm.pack) == (5000, 50_000, (0.5,))
    method = config.method.options
    assert (method.size, method.recurrent, method.last_action, method.mixer) == (64, True, True, "attention")


def test_with_options_sorts_options_into_their_groups():
    config = configs.default("group_matching", "refil")
    changed = config.with_options({"agents": 3}, {"groups": 3}, steps=500, batch=7, log_every=9)
    assert changed.env.options.agents == changed.method.options.groups == 3
    assert (changed.train.steps, changed.algorithm.batch, changed.output.log_every) == (500, 7, 9)
    with pytest.raises(RefilError, match="unknown option 'step'; did you mean 'steps'"):
        config.with_options(step=5)
    with pytest.raises(RefilError, match=r"env has no option 'agent'; did you mean 'agents'\? Available: agents"):
        config.with_options({"agent": 5})
    with pytest.raises(RefilError, match=r"train.steps must be from 1 to 1,000,000,000, not 0"):
        config.with_options(steps=0)


def test_configure_adds_flags_once(monkeypatch):
    usual = os.environ["XLA_FLAGS"]
    monkeypatch.setenv("XLA_FLAGS", usual)
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    config, seen, build = small(deterministic=True), [], group_matching.build
    monkeypatch.setattr(group_matching, "build", lambda options: seen.append(os.environ["XLA_FLAGS"]) or build(options))
    for _ in range(2):
        config.configure()
        config.build()
    assert seen == 2 * [f"{usual} {flags.DETERMINISTIC}"]


def test_a_config_reads_back_from_json():
    text = small().to_json()
    assert json.loads(text)["version"] == 2
    assert configs.read(text, "here") == small()


def test_stop_after_is_not_stored():
    assert configs.read(small(stop_after=1.0).to_json(), "here") == small()


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: str(path.relative_to(RESULTS)))
def test_published_runs_can_be_read(path):
    run = run_dir.open_run(path)
    stored, config = json.loads((path / "config.json").read_text()), run.config
    if "version" not in stored:
        assert (stored["env"]["name"], stored["method"]["name"]) == (config.env.name, config.method.name)
        assert (stored["steps"], stored["batch"], stored["log_every"]) == (
            config.train.steps,
            config.algorithm.batch,
            config.output.log_every,
        )
        assert stored["max_norm"] == config.algorithm.max_grad_norm
        assert tuple(stored.get("fold", config.algorithm.pack)) == config.algorithm.pack
        assert stored.get("condense", False) == config.output.compact_checkpoints
    assert configs.read(config.to_json(), "again") == replace(config, output=replace(config.output, stop_after=None))
    assert all({"seed", "env_steps"} <= line.keys() for line in run.metrics())
    assert any("win_rate" in line for line in run.metrics())


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_text_that_is_no_config_is_refused_with_its_source(text):
    with pytest.raises(RefilError, match="here is not a config of refil"):
        configs.read(text, "here")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "nothing"}, "here: unknown method 'nothing'"),
        ({"name": "away.py"}, "here: there is no file .*/away.py"),
        ({"name": "refil", "groups": None}, "here: method.groups should be of type int, not null"),
        ({"name": "refil", "mixer": "none"}, "here: method.mixer should be one of attention, linear, not none"),
    ],
)
def test_an_impossible_config_is_refused_with_its_source(method, message):
    with pytest.raises(RefilError, match=message):
        configs.read(json.dumps({"version": 2, "env": {"name": "group_matching"}, "method": method}), "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "here: the config has version 3; this version of refil reads 1 and 2"),
        ({"trane": {}}, "here: the config has no section 'trane'; available: env, method, algorithm, train, output"),
        ({"train": {"step": 1}}, r"here: train has no option 'step'; did you mean 'steps'\? Available: "),
    ],
)
def test_unknown_versions_sections_and_options_are_refused(changes, message):
    with pytest.raises(RefilError, match=message):
        configs.read(json.dumps(json.loads(small().to_json()) | changes), "here")


def test_errors_in_a_user_file_are_not_blamed_on_the_config(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("raise KeyError('mine')")
    text = json.dumps(json.loads(small().to_json()) | {"env": {"name": str(path)}})
    with pytest.raises(RefilError, match=r"importing .*mine.py failed at .*mine.py:1: KeyError: 'mine'") as caught:
        configs.read(text, "config.json", tmp_path, trust=True)
    assert "not a config" not in str(caught.value)


def test_differences_name_options_or_only_the_plug_ins():
    saved = small()
    assert configs.differences(saved, saved) == {}
    assert configs.differences(saved, small(lr=0.1)) == {"algorithm.lr": (5e-4, 0.1)}
    assert configs.differences(saved, small("qmix_attention")) == {"method.name": ("refil", "qmix_attention")}
    assert configs.differences(configs.default("3-8sz", "refil"), saved) == {"env.name": ("3-8sz", "group_matching")}


def test_a_run_resumes_with_other_steps_and_output_but_nothing_else():
    saved = small()
    config = saved.with_options(steps=500, tensorboard=True, log_every=3)
    assert configs.resumed(saved, config) == config
    with pytest.raises(RefilError, match=r"algorithm.lr 0.1 instead of 0.0005; only train.steps, output.log_every"):
        configs.resumed(saved, small(lr=0.1))
    with pytest.raises(RefilError, match=r"method.groups 3 instead of 2"):
        configs.resumed(saved, saved.with_options(method_options={"groups": 3}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 5}, r"train.steps 5 is less than one episode \(6 steps\)"),
        ({"batch": 21}, "algorithm.batch 21 is larger than algorithm.buffer 20"),
        ({"envs": 21}, "train.envs 21 is larger than algorithm.buffer 20"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(RefilError, match=message):
        small(**changes).build()


def test_each_algorithm_has_defaults_of_its_own():
    replay, onpolicy = (configs.default("3m", method) for method in ("refil", "refil_pqn"))
    assert (replay.train.precision, onpolicy.train.precision) == ("float32", "auto")
    assert onpolicy.train.envs > replay.train.envs
    assert onpolicy.output.log_every > replay.output.log_every


def test_dead_entities_can_be_masked():
    assert isinstance(small(mask_dead=True).build().env, MaskDead)
    assert not isinstance(small().build().env, MaskDead)


def test_options_with_several_words_are_stored_and_read():
    chosen = configs.default("3m", "refil").with_options({"vary": ["health", "speed"], "variation": 1})
    assert chosen.env.options.vary == ("health", "speed")
    assert configs.read(chosen.to_json(), "here") == chosen
