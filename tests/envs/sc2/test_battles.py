"""Observations and rewards through client and peer equal those of the peer's own state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins, teams
from refil.envs.sc2 import commands, install, table
from refil.envs.sc2.config import Config
from refil.envs.sc2.env import StarCraft2, build, races, with_script
from refil.envs.sc2.peer import battle as peer_battle
from refil.envs.sc2.peer import installation, server
from refil.envs.sc2.peer.server import Peer
from refil.envs.sc2.peer.session import Session
from refil.envs.sc2.records import PASSIVE_IDS
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config as SimulatorConfig
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import State
from refil.hosted import LostError
from refil.nn.utilities import team_policy, team_state
from refil.rollout import no_policy, random_policy, rollout
from refil.training import config
from refil.types import Trajectory
from tests.envs.sc2 import fake_game
from tests.envs.sc2.in_process import environment
from tests.slow import all_but

FIELDS = ("x", "y", "health", "shield", "energy", "cooldown")
SETS, PLAYERS = ("2-4m", "3-8sz", "3-8csz", "3-8MMM"), ("random", "nearest", "team")


class Watched:
    """A game of a peer that notes the peer's own state of each unit, by tag, after every observation."""

    def __init__(self, client, peer: Peer) -> None:
        self.client, self.peer, self.battles = client, peer, []

    def start(self):
        return self.client.start()

    def close(self):
        self.client.close()

    def reset(self, placements, orders):
        units = self.client.reset(placements, orders)
        self.battles.append([self.truth()])
        return units

    def step(self, commands, ticks):
        units = self.client.step(commands, ticks)
        self.battles[-1].append(self.truth())
        return units

    def truth(self) -> dict[int, dict[str, float]]:
        battle = self.peer.sessions[-1].battle
        rows = {int(battle.tags[slot]): slot for slot in battle.alive()}
        return {tag: {name: float(getattr(battle.state, name)[slot]) for name in FIELDS} for tag, slot in rows.items()}


@pytest.fixture(scope="module", params=all_but(SETS[:1], SETS))
def watched(request, tmp_path_factory):
    """A task set in a single game of a peer."""
    scenario, games = scenarios.SCENARIOS[request.param], []

    def launch(number: int) -> Watched:
        games.append(Watched(fake_game.client(tmp_path_factory.mktemp("game"), peer), peer))
        return games[-1]

    with Peer(starcraft.build(scenario, SimulatorConfig())) as peer:
        env = build(scenario, Config(games=1, limit=12 if request.param == "2-4m" else None), launch)
        yield request.param, env, games
        env.games.close()


def play(name: str, env: StarCraft2, player: str, tasks: jax.Array):
    """Play battles with random or scripted allies, or with a team."""
    keys = jax.random.split(jax.random.key(7), 1)
    if player == "nearest":
        orders = plugins.load("refil.envs.starcraft.scripts", player).orders
        return rollout(with_script(env, orders), no_policy, (), tasks, keys)
    if player == "random":
        return rollout(env, random_policy, (), tasks, keys)
    if name in teams.names():
        models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], teams.load(name).model)
    else:  # no team ships for it
        setup = config.default(name, "refil").with_options(None, {"size": 16}).build()
        models = jax.jit(jax.vmap(setup.method.init))(keys)
    policy, state = team_policy(models, jnp.zeros(1)), team_state(models, tasks.shape[1], env.spec.agents)
    return rollout(env, policy, state, tasks, keys)


@pytest.mark.parametrize("player", all_but(PLAYERS[:2], PLAYERS))
def test_observations_rewards_and_ends_are_those_of_the_peers_state(watched, player):
    name, env, games = watched
    tasks = jnp.array([[0, len(env.task_names) - 1]])
    first = len(games[0].battles) if games else 0
    played = jax.tree.map(lambda leaf: np.asarray(leaf[0]), play(name, env, player, tasks))
    assert played.valid[:, 0].all()
    for number, battle in enumerate(games[0].battles[first:]):
        check(env.env, jax.tree.map(lambda leaf, number=number: leaf[number], played), battle)


def check(env: starcraft.StarCraft, played: Trajectory, battle: list[dict]) -> None:
    """Compare an episode with the peer's states, whose units are found by the places where they start."""
    length = int(played.valid.sum())
    assert len(battle) == length + 1
    states = jax.tree.map(lambda leaf: leaf[: length + 1], played.states)
    tags, columns = match(states, battle[0]), []
    for truth in battle:
        rows = [truth.get(tag, {}) for tag in tags]  # empty for dead units and empty slots
        column = {name: np.array([row.get(name, 0.0) for row in rows], np.float32) for name in FIELDS}
        for axis in ("x", "y"):  # where a unit was seen for the last time
            earlier = columns[-1][axis] if columns else getattr(states, axis)[0]
            column[axis] = np.where(column["health"] > 0, column[axis], earlier)
        columns.append(column)
    truth = table.with_fields(states, **{name: np.stack([column[name] for column in columns]) for name in FIELDS})
    seen, expected = (jax.jit(jax.vmap(env.observe))(each) for each in (states, truth))
    np.testing.assert_allclose(seen.entities, expected.entities, atol=1e-5)
    for mask in ("visible", "available", "alive", "present"):
        np.testing.assert_array_equal(getattr(seen, mask), getattr(expected, mask))
    check_visible(seen.visible, truth, env.game.num_allies)
    before, after = (jax.tree.map(lambda leaf, part=part: leaf[part], truth) for part in (slice(0, -1), slice(1, None)))
    outcome = jax.jit(jax.vmap(env.outcome))(before, after)
    np.testing.assert_allclose(played.rewards[:length], outcome.reward, atol=1e-5)
    np.testing.assert_array_equal(played.terminated[:length], outcome.terminated)
    assert bool(played.won) == bool(outcome.won[-1])


def match(states: State, first: dict[int, dict[str, float]]) -> list[int]:
    """Return the peer's tag of the unit in each slot, 0 in empty slots."""
    tags = []
    for slot, is_present in enumerate((states.unit_type[0] >= 0).tolist()):
        x, y = states.x[0, slot], states.y[0, slot]
        near = [tag for tag, unit in first.items() if np.hypot(unit["x"] - x, unit["y"] - y) < 1e-4 and tag not in tags]
        tags.append(near[0] if is_present else 0)
    return tags


def check_visible(visible, truth: State, agents: int) -> None:
    """Work out by hand who sees whom."""
    for time in range(len(truth.x)):
        alive, places = truth.health[time] > 0, np.stack([truth.x[time], truth.y[time]])
        distance = np.linalg.norm(places[:, :agents, None] - places[:, None], axis=0)
        itself = np.eye(agents, len(alive), dtype=bool) & (truth.unit_type[time] >= 0)
        expected = (alive[:agents, None] & alive & (distance <= 9.0)) | itself
        borderline = abs(distance - 9.0) < 1e-5
        np.testing.assert_array_equal(np.asarray(visible[time]) | borderline, expected | borderline)


@pytest.mark.parametrize("name", SETS[1:])
def test_a_battle_of_commands_equals_one_of_actions_bit_by_bit(name):
    """Random actions until a battle of the largest army of each set is over, without chance in the simulator."""
    env = starcraft.build(scenarios.SCENARIOS[name], SimulatorConfig(jitter=False))
    task = max(range(len(env.armies)), key=lambda task: (len(set(env.armies[task])), (env.armies[task] >= 0).sum()))
    step, available = jax.jit(env.step), jax.jit(env.available_actions)
    state = jax.jit(env.reset)(env.tasks[task], jax.random.key(3))
    battle = peer_battle.Battle(peer_battle.Simulator(env), seed=0)
    battle.state, battle.tags = jax.tree.map(np.array, state), np.arange(1000, 1000 + env.game.num_units, dtype=np.uint64)
    battle.type_ids[: env.game.num_allies] = PASSIVE_IDS["marine"]  # allies do nothing unless ordered
    rng, length, ended = np.random.default_rng(0), 0, False
    while not ended:
        seen = jax.tree.map(np.asarray, state)
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in np.asarray(available(state))], np.int32)
        for command in commands.from_actions(table.with_fields(battle.state, tag=seen.tag), actions, battle.tags, env.game):
            battle.command(command, commands_enemies=False)
        battle.advance(TICKS_PER_STEP)
        state, outcome = step(state, jnp.asarray(actions), jax.random.key(0))
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(battle.state, field), np.asarray(getattr(state, field)), err_msg=field)
        length, ended = length + 1, bool(outcome.terminated)
    assert length > 15
    assert (battle.state.health[battle.state.unit_type >= 0] == 0).any()


class Recorded(Session):
    """A session that keeps every request."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.requests = []

    def handle(self, request):
        self.requests.append(request)
        return super().handle(request)


def test_requests_are_those_of_the_authors_environment_in_their_order(monkeypatch, tmp_path):
    """Two Marines against two, for two battles of one step."""
    monkeypatch.setattr(server, "Session", Recorded)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    with Peer(fake_game.marines()) as peer:
        installation.write(tmp_path, peer.port)
        env = build(scenarios.custom("2m"), Config(games=1, limit=1, game_seed=5))
        stop = plugins.load("refil.envs.starcraft.scripts", "stop").orders
        tasks, keys = jnp.zeros((1, 2), jnp.int32), jax.random.split(jax.random.key(0), 1)
        played = rollout(with_script(env, stop), no_policy, (), tasks, keys)
        env.games.close()
        requests = peer.sessions[0].requests
        assert fake_game.wait_until(lambda: requests[-1].HasField("quit"))  # the peer handles it in a thread of its own
    start = ["ping", "create_game", "join_game", "game_info"]
    spawn = ["debug", "step", "observation", "debug", "step", "observation", "action"]
    step = ["action", "step", "observation"]
    kill = ["observation", "debug", "step", "observation"]
    names = [request.WhichOneof("request") for request in requests]
    assert names == [*start, "observation", *spawn, *step, *kill, *spawn, *step, "quit"]
    assert [request.step.count for request in requests if request.HasField("step")] == [2, 4, 8, 2, 2, 4, 8]
    create, join = requests[1].create_game, requests[2].join_game
    api, common = (getattr(install.protocol(), name) for name in ("api", "common"))
    assert (create.local_map.map_path, create.realtime, create.random_seed) == (install.MAP, False, 5)
    assert create.local_map.map_data == install.NOT_A_MAP
    player, computer = create.player_setup
    assert player.type == api.Participant
    assert (computer.type, computer.race, computer.difficulty) == (api.Computer, common.Terran, api.VeryHard)
    assert (join.race, join.options.raw, join.options.score) == (common.Terran, True, False)
    check_spawn(requests[5:12], jax.tree.map(lambda leaf: leaf[0, 0, 0], played.states))


def check_spawn(requests, state: State) -> None:
    """Compare what spawns two Marines a side, and gives the enemies their order, with the state that follows."""
    ally, enemy = (command.create_unit for command in requests[0].debug.debug)
    assert [(unit.unit_type, unit.owner, unit.quantity) for unit in (ally, enemy)] == [(1939, 1, 2), (48, 2, 2)]
    (control,) = requests[3].debug.debug
    assert control.game_state == install.protocol().debug.control_enemy
    (action,) = requests[6].action.actions
    order = action.action_raw.unit_command
    assert (order.ability_id, len(set(order.unit_tags)), order.queue_command) == (23, 2, False)
    goal = order.target_world_space_pos
    np.testing.assert_allclose([goal.x, goal.y], [state.x[:2].mean(), state.y[:2].mean()], rtol=1e-6)


def test_the_race_is_that_of_each_army_or_random():
    names = {"3-8MMM": "Terran", "3-8csz": "Protoss", "1m1z": "Random"}
    names |= {"2z_vs_3m": ("Protoss", "Terran"), "1h_vs_2v": ("Zerg", "Terran")}
    for name, expected in names.items():
        scenario = scenarios.SCENARIOS.get(name) or scenarios.custom(name)
        pair = expected if isinstance(expected, tuple) else (expected, expected)
        assert races(starcraft.build(scenario, SimulatorConfig())) == pair


def test_a_game_that_crashes_costs_no_episode(caplog):
    env = environment("1m", games=2, crashes={1: (3,)}, limit=6)
    played = rollout(env, random_policy, (), jnp.zeros((1, 2), jnp.int32), jax.random.split(jax.random.key(0), 1))
    assert played.valid.sum() == 12
    assert [record.getMessage() for record in caplog.records] == [
        "An episode was lost and is played again: the test lets it crash"
    ]
    assert [env.games[number].resets for number in (0, 1)] == [1, 2]


def test_a_game_that_always_crashes_is_an_error():
    env = environment("1m", games=1, crashes={0: tuple(range(9))}, limit=6)
    with pytest.raises(LostError, match="lost 3 times in a row, the last time because the test lets it crash"):
        rollout(env, random_policy, (), jnp.zeros((1, 1), jnp.int32), jax.random.split(jax.random.key(0), 1))


def test_enemies_attack_from_the_first_step_on():
    env = environment("1m", games=1, limit=40)
    orders = plugins.load("refil.envs.starcraft.scripts", "stop").orders
    tasks, keys = jnp.zeros((1, 1), jnp.int32), jax.random.split(jax.random.key(0), 1)
    played = rollout(with_script(env, orders), no_policy, (), tasks, keys)
    states = jax.tree.map(lambda leaf: np.asarray(leaf[0, 0]), played.states)
    length = int(played.valid.sum())
    gap = np.hypot(states.x[:, 0] - states.x[:, 1], states.y[:, 0] - states.y[:, 1])[: length + 1]
    assert gap[0] > 11
    assert gap[5] == pytest.approx(gap[0] - 5 * 1.125, abs=0.01)  # a Marine walks 1.125 in a step
    assert states.health[length, 0] == 0  # the ally stood still and lost
    assert not played.won.any()
