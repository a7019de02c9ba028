"""What is to be trained, by name."""

import json
import os
from dataclasses import replace

import jax
import pytest

from refil.envs import group_matching
from refil.errors import RefilError
from refil.nn.mixers import Vdn
from refil.training import config as experiment
from refil.types import Method, Model, Observation
from tests import tiny_envs
from tests.tiny_runs import small


def test_the_papers_settings_lie_under_the_options():
    options = experiment.default("group_matching", "refil").options
    assert (options.buffer, options.epsilon_steps, options.eval_every, options.eval_episodes) == (2000, 5000, 10_000, 80)
    method = options.method
    assert (method.size, method.recurrent, method.mixer, method.last_action) == (64, False, "linear", False)


def test_the_device_is_set_before_anything_is_built_and_once(monkeypatch):
    usual = os.environ["XLA_FLAGS"]
    monkeypatch.setenv("XLA_FLAGS", usual)
    asked, seen, build = small(), [], group_matching.build
    asked = replace(asked, options=replace(asked.options, deterministic=True))
    monkeypatch.setattr(group_matching, "build", lambda config: seen.append(os.environ["XLA_FLAGS"]) or build(config))
    asked.build()
    asked.build()
    assert seen == 2 * [f"{usual} {experiment.SAME_BYTES}"]


def test_what_is_wrong_in_a_file_of_ones_own_is_not_told_of_the_config(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('"""Mine."""\nfrom tests.tiny_envs import Config, build\n')
    text = experiment.default(str(path), "refil").to_json()
    path.write_text("raise KeyError('mine')")
    with pytest.raises(KeyError, match="mine"):
        experiment.read(text, "config.json")


def test_when_to_stop_is_not_kept():
    assert experiment.read(small(stop_after=1.0).to_json(), "here") == small()


def test_another_environment_or_method_is_another_experiment():
    saved = small()
    assert experiment.differences(saved, saved) == {}
    assert experiment.differences(saved, small(lr=0.1)) == {"--lr": (5e-4, 0.1)}
    assert experiment.differences(saved, small("qmix_attention")) == {"--method": ("refil", "qmix_attention")}
    battles = replace(experiment.default("3-8sz", "refil"), options=saved.options)
    assert experiment.differences(battles, saved) == {"ENV": ("3-8sz", "group_matching")}


def test_an_environment_of_ones_own_gets_starcrafts_settings(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('"""Mine."""\nfrom tests.tiny_envs import Config, build\n')
    options = experiment.default(str(path), "refil").options
    assert (options.steps, options.buffer, options.epsilon_steps) == (10_000_000, 5000, 500_000)
    assert (options.method.size, options.method.recurrent, options.method.mixer) == (128, True, "attention")


def test_an_experiment_reads_back_from_json():
    assert experiment.read(small().to_json(), "here") == small()


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_text_that_is_no_config_is_refused_with_its_source(text):
    with pytest.raises(RefilError, match="here is not a config of refil"):
        experiment.read(text, "here")


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ({"name": "nothing"}, "here: refil.methods has no 'nothing'"),
        ({"name": "away.py"}, "here: there is no file .*/away.py"),
        ({"name": "refil", "groups": None}, "here: --method.groups should be of type int, not null"),
        ({"name": "refil", "mixer": "none"}, "here: --method.mixer should be one of attention, linear, not none"),
    ],
)
def test_a_config_of_what_cannot_be_is_refused_with_its_source(method, says):
    with pytest.raises(RefilError, match=says):
        experiment.read(json.dumps({"env": {"name": "group_matching"}, "method": method}), "here")


def test_a_run_may_go_on_with_other_steps_but_not_with_another_learning_rate():
    saved = small()
    asked = replace(saved, options=replace(saved.options, steps=500, tensorboard=True))
    assert experiment.continued(saved, asked) == asked
    with pytest.raises(RefilError, match=r"another --lr \(0.1 instead of 0.0005\); only --steps"):
        experiment.continued(saved, replace(saved, options=replace(saved.options, lr=0.1)))
    other = replace(saved, options=replace(saved.options, method=replace(saved.options.method, groups=3)))
    with pytest.raises(RefilError, match=r"--method.groups"):
        experiment.continued(saved, other)


class Mortal(tiny_envs.Counting):
    """The counting world, whose third entity dies at once."""

    def observe(self, state) -> Observation:
        seen = super().observe(state)
        return replace(seen, alive=seen.alive.at[2].set(False))


def test_the_dead_can_be_taken_out():
    env = tiny_envs.build(tiny_envs.Config())
    mortal = experiment.WithoutDead(Mortal(env.spec, env.tasks))
    state = mortal.reset(2, jax.random.key(0))
    obs = mortal.observe(state)
    assert obs.present.tolist() == [True, True, False]
    assert not obs.visible[:, 2].any()
    assert mortal.spec == env.spec
    assert small(mask_dead=True).build().env.spec == small().build().env.spec


class Counted(Vdn):
    """A mixer with a number that is not said not to be learned."""

    size: int = 3


def counting(key) -> Model:
    return replace(small().build().method.init(key), mixer=Counted())


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (None, "build of mine gave NoneType instead of refil.types.Method"),
        (Method(lambda key: (key, key), lambda *given: given), "init of mine gave tuple instead of refil.types.Model"),
        (Method(counting, lambda *given: given), r"mine has int32 in .mixer.size; .*static=True"),
    ],
)
def test_what_is_no_method_is_refused(method, says):
    with pytest.raises(RefilError, match=says):
        experiment.check_method(method, "mine")
