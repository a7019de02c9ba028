"""Commanders: trained teams in the slots of the lab, and whom they can command."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import environment, teams
from refil.envs.starcraft import spawn
from refil.errors import RefilError
from refil.lab import battle, commanders, field
from refil.lab.battle import Battle
from refil.lab.commanders import Scripted, Trained
from refil.team import Team
from refil.training import config
from tests.lab.conftest import line


@pytest.fixture(scope="module")
def trained():
    return Trained(teams.load("3-8sz"))


def test_a_team_chooses_the_actions_that_it_chooses_in_its_own_environment(trained, units):
    """The states are built by hand in the team's own environment, and `team.act` plays through the same battle."""
    played = battle.play(Battle(units, trained, Scripted("attack_move"), 0))
    env, team = trained.team.env, trained.team
    slots = np.r_[0:8, 12:20]
    names = field.unit_table().names
    types = [-1 if t < 0 else env.game.table.names.index(names[t]) for t in played.states.unit_type[0][slots]]
    tags = np.where(np.array(types) < 0, -1, [*range(8, 16), *range(8)])

    @jax.jit
    def act(values, memory):
        start = spawn.idle_state(jnp.array(types, jnp.int8), values["x"], values["y"], jnp.array(tags, jnp.int16), env.game)
        return team.act(env.observe(replace(start, **values)), memory)

    memory = team.initial_state()
    for time in range(played.length):
        fields = ("x", "y", "health", "shield", "energy", "cooldown")
        values = {name: jnp.asarray(getattr(played.states, name)[time][slots]) for name in fields}
        actions, memory = act(values, memory)
        np.testing.assert_array_equal(actions, played.actions[0][time])
    assert played.length > 10
    assert len(np.unique(played.actions[0])) > 4


def test_a_team_commands_enemies_through_the_mirrored_battle(trained, units):
    """Orders of enemies are those that it gives as allies in the mirrored battle: it targets and moves its own side only."""
    played = battle.play(Battle(units, Scripted("stop"), trained, 0))
    assert played.actions[0] is None
    targets = played.ticks.target[:, -1]
    assert set(np.unique(targets[:, 12:15]).tolist()) <= {-1, 0, 1, 2}  # enemies aim at allies
    assert (targets[:, 12:15] >= 0).any()
    assert not played.ticks.moving[:, -1, :3].any()
    moved = np.abs(played.states.x[-1] - played.states.x[0])
    assert moved[12:15].max() > 1


def test_a_team_sees_the_lab_in_its_own_slots_and_types(trained, units):
    state = field.first_state(units, 12)
    state = replace(state, target=state.target.at[0].set(13))
    seen = trained.observe(state)
    assert seen.x.shape == (16,)
    assert int(seen.target[0]) == 9
    assert seen.tag[:4].tolist() == [8, 9, 10, -1]
    names = trained.view.game.table.names
    assert [names[number] for number in seen.unit_type[:3]] == ["stalker", "zealot", "zealot"]
    assert trained.lab_slots(12) == [*range(8), *range(12, 20)]
    assert trained.slots == 8


def test_a_team_trained_with_units_that_vary_sees_usual_units(units):
    chosen = config.default("3-8sz", "vdn_attention").with_options(
        {"vary": ("health", "speed"), "draws": 2}, {"size": 8, "heads": 2}
    )
    setup = chosen.build()
    varied = Trained(Team(setup.method.init(jax.random.key(0)), setup.env, "varied"))
    state = varied.observe(field.first_state(units, 12))
    assert setup.env.feature_names[-2:] == ("extra health", "extra speed")
    np.testing.assert_array_equal(varied.view.observe(state).entities[:, -2:], 0.0)


def test_a_team_refuses_foreign_types_and_large_armies(trained, situation, units):
    assert trained.reason_against(units, "ally") is None
    marines = field.parse([*situation, *line("enemy", "spine_crawler", 25.0)])
    with pytest.raises(RefilError, match="3-8sz was trained with zealots and stalkers only, and not with spine crawlers"):
        commanders.check(trained, marines, "ally")
    many = field.parse(line("ally", "zealot " * 9, 9.0) + line("enemy", "zealot", 20.0))
    assert trained.reason_against(many, "ally") == "3-8sz can command up to 8 units, and there are 9 allies"
    with pytest.raises(RefilError, match=r"fight against up to 8 units, and there are 9 allies; choose another commander"):
        commanders.check(trained, many, "enemy")
    commanders.check(Scripted("nearest"), many, "ally")


def test_only_teams_of_battles_can_command(trained):
    assert commanders.can_command(trained.team.env)
    assert not commanders.can_command(environment.make("group_matching").core)
