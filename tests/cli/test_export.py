"""`refil export`, and the policy that it writes."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import refil as api
from refil import numpy_policy
from refil.cli import export
from refil.errors import RefilError
from refil.team import Team
from refil.training import config as configs
from tests.slow import all_but

ENV = {"agents": 3, "cells": 4, "horizon": 6}
NETWORKS = [
    ("vdn_attention", {"recurrent": True, "last_action": True}),
    ("vdn_attention", {"recurrent": False, "last_action": False}),
    ("vdn_pqn", {"recurrent": True, "last_action": True}),
    ("vdn_pqn", {"recurrent": True, "own_embedding": False}),
    ("vdn_pqn", {"recurrent": True, "own_embedding": False, "layer_norm": False}),
    ("vdn_pqn", {"recurrent": False}),
]


def same_actions(team: Team, folder: Path, episodes: int) -> int:
    """Let a team play whole episodes; the exported policy must choose the same actions. Return how many there were."""
    export.export(team, folder)
    spec = importlib.util.spec_from_file_location("exported", folder / "policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    policy, env, compared = module.Policy(), api.Environment(team.env, "env"), 0
    step, act, reset = jax.jit(env.step), jax.jit(team.act), jax.jit(env.reset)
    for episode in range(episodes):
        state, obs = reset(jax.random.key(episode))
        policy.reset()
        hidden, done, time = team.initial_state(), False, 0
        while not done:
            actions, hidden = act(obs, hidden)
            chosen = policy.act(obs.entities, obs.visible, obs.available)
            present = np.asarray(obs.agent_present)
            np.testing.assert_array_equal(chosen[present], np.asarray(actions)[present])
            compared += int(present.sum())
            state, obs, outcome = step(state, actions, jax.random.key(1000 * episode + time))
            done, time = bool(outcome.done), time + 1
    return compared


@pytest.mark.parametrize("network", all_but((NETWORKS[0], NETWORKS[2]), NETWORKS), ids=str)
def test_an_exported_policy_chooses_the_actions_of_the_team(network, tmp_path):
    method, options = network
    setup = configs.default("group_matching", method).with_options(ENV, {"size": 8, "heads": 2} | options).build()
    team = Team(setup.method.init(jax.random.key(0)), setup.env, method)
    # Weights of a random network are small: larger ones tell actions apart.
    team = Team(jax.tree.map(lambda leaf: 3 * leaf, team.model), setup.env, method)
    assert same_actions(team, tmp_path / "policy", 3) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3-8sz", "3-8MMM-refil"])
def test_exported_teams_choose_the_same_actions_in_whole_battles(name, tmp_path):
    assert same_actions(api.load(name), tmp_path / "policy", 3) > 300


def test_the_policy_needs_only_numpy():
    tree = ast.parse(Path(numpy_policy.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"json", "pathlib", "typing", "numpy"}


def test_the_command_writes_a_policy_that_runs_without_refil(refil, tmp_path):
    out, _, code = refil("export", "3-8sz", "--out", str(tmp_path / "policy"))
    assert code == 0
    assert "policy.py" in out
    program = """
import sys
from policy import Policy
policy = Policy()
agents, actions, features = policy.info["agents"], len(policy.info["actions"]), len(policy.info["features"])
chosen = policy.act([[0.1] * features] * 16, [[True] * 16] * agents, [[False, True] + [False] * (actions - 2)] * agents)
print(chosen.tolist(), "jax" in sys.modules, "refil" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "policy", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1, 1, 1, 1, 1, 1, 1, 1] False False"


def test_networks_without_entity_attention_are_refused(tmp_path):
    setup = configs.default("group_matching", "qmix_mean_pooling").with_options(ENV, {"size": 8}).build()
    team = Team(setup.method.init(jax.random.key(0)), setup.env, "pooling")
    with pytest.raises(RefilError, match="pooling cannot be exported"):
        export.export(team, tmp_path / "policy")
