"""Battles as an environment: random armies and actions, many steps, and what must hold all the while."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.envs.starcraft import observe, orders, reward, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.rules import SMAC
from refil.envs.starcraft.sim.state import ARENAS, Game
from tests.envs.starcraft.scenes import TABLES

SIDE, BATCH, STEPS = 6, 16, 30
FREE = Battle(  # any types against any types
    game=Game(SIDE, 2 * SIDE, TABLES["smac"], ARENAS["any_angle"], SMAC),
    config=Config(),
    limit=150,
    divisor=50.0,
    armies=np.zeros((1, 2 * SIDE), np.int8),
    task_names=("free",),
)


def built(name: str, **options) -> Battle:
    module = plugins.load("refil.envs", name)
    return module.build(module.Config(**options))


def random_step(battle: Battle, world, key):
    key_actions, key_step = jax.random.split(key)
    available = battle.available(world)
    actions = jax.random.categorical(key_actions, jnp.where(available, 0.0, -jnp.inf))
    following, outcome = battle.step(world, actions, key_step)
    return following, (world, following, outcome, available)


@partial(jax.jit, static_argnums=(0, 3))
def play(battle: Battle, tasks, keys, steps):
    def one(task, key):
        key_reset, key_steps = jax.random.split(key)
        return jax.lax.scan(partial(random_step, battle), battle.reset(task, key_reset), jax.random.split(key_steps, steps))[1]

    return jax.vmap(one)(tasks, keys)


def overlap(battle: Battle, worlds) -> np.ndarray:
    """The deepest overlap of two bodies at each instant."""

    def deepest(world):
        distance = jnp.hypot(world.x[:, None] - world.x, world.y[:, None] - world.y)
        return (motion.contacts(world, battle.game.table[world.kind]) - distance).max()

    return np.asarray(jax.vmap(jax.vmap(deepest))(worlds))


def check(battle: Battle, played) -> None:
    """What holds at every instant of every battle."""
    before, after, outcome, available = jax.tree.map(np.asarray, played)
    for leaf in jax.tree.leaves(after):
        assert np.isfinite(leaf).all()
    columns = {name: np.asarray(values) for name, values in battle.game.table[jnp.asarray(after.kind)]._asdict().items()}
    for name, most in (("health", "health"), ("shield", "shield"), ("energy", "energy_most")):
        value = getattr(after, name)
        assert (value >= 0).all()
        assert (value <= columns[most] + 1e-4).all()
    assert (after.cooldown >= 0).all()
    assert (after.cooldown <= columns["period"] + 2).all()

    arena, there, body = battle.game.arena, after.kind >= 0, columns["body"] - 1e-5
    for place, low, high in ((after.x, arena.west, arena.east), (after.y, arena.south, arena.north)):
        assert (place >= low + body)[there].all()
        assert (place <= high - body)[there].all()
    assert overlap(battle, played[1]).max() <= 0.02

    dead = (before.health <= 0) & (after.health <= 0)
    assert (after.health[before.health <= 0] == 0).all()
    for name in ("x", "y"):
        assert (getattr(before, name) == getattr(after, name))[dead].all()
    assert (after.shield[after.health <= 0] == 0).all()

    assert available.any(axis=-1).all()
    alive = before.health[..., : battle.game.allies] > 0
    assert (available[..., orders.NOTHING] == ~alive).all()

    enemies = slice(battle.game.allies, None)
    lost = (before.health + before.shield - after.health - after.shield)[..., enemies].sum(axis=-1)
    fallen = ((before.health > 0) & (after.health <= 0))[..., enemies].sum(axis=-1)
    raw = np.abs(lost + reward.KILL * fallen) + reward.WIN * outcome.won
    np.testing.assert_allclose(outcome.reward * battle.divisor, raw, atol=2e-2)


kinds = st.lists(st.integers(-1, len(TABLES["smac"].units) - 1), min_size=2 * SIDE, max_size=2 * SIDE)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(kinds, min_size=BATCH, max_size=BATCH), seed=st.integers(0, 2**31 - 1))
def test_whatever_fights_stays_within_its_bounds(rows, seed):
    tasks = jnp.array(rows, jnp.int8).at[:, 0].set(0).at[:, SIDE].set(1)
    check(FREE, play(FREE, tasks, jax.random.split(jax.random.key(seed), BATCH), STEPS))


@pytest.mark.parametrize("name", ["3-8sz", "3-8csz", "3-8MMM"])
def test_the_papers_sets_stay_within_their_bounds(name):  # T28
    battle = built(name)
    tasks = battle.tasks[:: max(1, len(battle.tasks) // BATCH)]
    check(battle, play(battle, tasks, jax.random.split(jax.random.key(0), len(tasks)), 200))


def test_thirty_a_side_do_not_overlap():
    battle = built("27m_vs_30m")
    played = play(battle, jnp.repeat(battle.tasks, 4, axis=0), jax.random.split(jax.random.key(0), 4), 60)
    assert overlap(battle, played[1]).max() <= 0.02
    start = jax.jit(jax.vmap(battle.reset))(jnp.repeat(battle.tasks, 4, axis=0), jax.random.split(jax.random.key(1), 4))
    assert overlap(battle, jax.tree.map(lambda leaf: leaf[:, None], start)).max() <= 0.02


def test_a_battle_in_a_batch_is_the_battle_alone():
    battle = built("3-8sz")
    keys = jax.random.split(jax.random.key(5), 3)
    together = play(battle, battle.tasks[10:13], keys, 40)[1]
    for number in range(3):
        alone = play(battle, battle.tasks[10 + number : 11 + number], keys[number : number + 1], 40)[1]
        for ours, theirs in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[number])


def test_two_batch_axes_are_as_good_as_one():
    battle = built("3-8sz")
    keys = jax.random.split(jax.random.key(5), 4)
    worlds = jax.jit(jax.vmap(battle.reset))(battle.tasks[20:24], keys)
    actions = jnp.full((4, 8), orders.STOP)
    flat, _ = jax.jit(jax.vmap(battle.step))(worlds, actions, keys)
    square = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (worlds, actions, keys))
    folded, _ = jax.jit(jax.vmap(jax.vmap(battle.step)))(*square)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.reshape(b.shape), b), folded, flat)


def test_sight_is_mutual_among_living_allies():
    battle = built("3-8MMM")
    worlds = play(battle, battle.tasks[::8], jax.random.split(jax.random.key(2), 9), 40)[1]
    seen = jax.vmap(jax.vmap(lambda world: observe.visible(world, battle.game)))(worlds)
    among = np.asarray(seen[..., : battle.game.allies])
    assert (among == np.swapaxes(among, -1, -2)).all()


def test_the_action_for_a_unit_is_offered_to_those_near_enough_who_fight_or_heal_it():
    battle = built("3-8MMM")
    worlds = play(battle, battle.tasks[::8], jax.random.split(jax.random.key(2), 9), 40)[0]
    obs = jax.tree.map(np.asarray, jax.jit(jax.vmap(jax.vmap(battle.observe)))(worlds))
    kind, tag, x, y, health = (np.asarray(getattr(worlds, name)) for name in ("kind", "tag", "x", "y", "health"))
    np.testing.assert_array_equal(obs.targeting_action, np.where(kind >= 0, 6 + tag, -1))

    flies = kind == battle.game.table.names.index("medivac")
    distance = np.hypot(x[..., :8, None] - x[..., None, :], y[..., :8, None] - y[..., None, :])
    ally, oneself = np.arange(16) < 8, np.eye(8, 16, dtype=bool)
    mends, fights = ally & ~oneself & ~flies[..., None, :], ~ally
    heals = flies[..., :8, None]
    alive = (health > 0)[..., :8, None] & (health > 0)[..., None, :]
    near = np.where(heals, mends, fights) & alive & (distance <= 6)
    offered = np.take_along_axis(obs.available, np.maximum(obs.targeting_action, 0)[..., None, :], axis=-1)
    np.testing.assert_array_equal(offered & (kind >= 0)[..., None, :], near)
    np.testing.assert_array_equal(obs.available[..., 6:].sum(axis=-1), near.sum(axis=-1))  # and nothing else is
    assert (near & heals).any()
    assert (near & ~heals).any()


def test_where_nobody_heals_no_action_is_for_an_ally():
    battle = built("3-8sz")
    world = battle.reset(battle.tasks[20], jax.random.key(6))
    aims, enemy = np.asarray(battle.observe(world).targeting_action), np.asarray(world.kind[8:]) >= 0
    np.testing.assert_array_equal(aims[:8], -1)
    np.testing.assert_array_equal(aims[8:], np.where(enemy, 6 + np.asarray(world.tag[8:]), -1))


@pytest.mark.parametrize("name", ["3-8sz", "3-8csz", "3-8MMM"])
def test_who_only_stops_hurts_nobody_and_loses(name):  # T22
    battle = built(name)
    tasks = battle.tasks[:: len(battle.tasks) // 6]

    def step(carry, key):
        following, outcome = battle.step(carry, jnp.full((8,), orders.STOP), key)
        return following, (following, outcome)

    def one(task, key):
        return jax.lax.scan(step, battle.reset(task, key), jax.random.split(key, 150))[1]

    worlds, outcome = jax.jit(jax.vmap(one))(tasks, jax.random.split(jax.random.key(0), len(tasks)))
    first = np.argmax(np.asarray(outcome.terminated), axis=1)
    for number, end in enumerate(first):
        world = jax.tree.map(lambda leaf, n=number, t=end: leaf[n, t], worlds)
        assert int(reward.outcome(world, battle.game, healers_alone_lose=True)) == reward.LOST
        assert float(outcome.reward[number, : end + 1].sum()) == 0
        fresh = battle.game.table[world.kind]
        assert (world.health + world.shield)[8:].tolist() == (fresh.health + fresh.shield)[8:].tolist()


SIZES = [("3-8sz", 39, 14, 38), ("3-8csz", 66, 14, 39), ("3-8MMM", 66, 22, 46)]


@pytest.mark.parametrize(("name", "tasks", "actions", "features"), SIZES)
def test_sizes_are_the_papers(name, tasks, actions, features):  # T27
    battle = built(name)
    assert len(battle.task_names) == len(battle.tasks) == tasks
    assert (battle.spec.actions, battle.spec.features, battle.spec.entities, battle.spec.horizon) == (
        actions,
        features,
        16,
        150,
    )
    assert len(set(battle.task_names)) == tasks


def test_armies_start_fourteen_apart_at_any_angle():
    battle = built("3-8sz")
    keys = jax.random.split(jax.random.key(0), 400)
    worlds = jax.jit(jax.vmap(lambda key: battle.reset(battle.tasks[-1], key)))(keys)  # 8z: one block a side
    ally, enemy = (np.stack([worlds.x[:, s].mean(1), worlds.y[:, s].mean(1)], -1) for s in (slice(0, 8), slice(8, 16)))
    apart = np.linalg.norm(ally - enemy, axis=1)
    assert abs(apart.mean() - 14) < 0.2
    assert 11 < apart.min() < apart.max() < 17
    angle = np.arctan2(*(ally - 16).T)
    assert np.abs(np.histogram(angle, 4)[0] - 100).max() < 40
    goal = np.asarray([worlds.goal_x[:, 8], worlds.goal_y[:, 8]]).T
    np.testing.assert_allclose(goal, ally, atol=1e-4)  # the enemy attack-moves to the middle of the allies


def test_tags_are_drawn_anew_and_enemies_have_the_first_ones():
    battle = built("3-8sz")
    worlds = jax.jit(jax.vmap(lambda key: battle.reset(battle.tasks[10], key)))(jax.random.split(jax.random.key(0), 50))
    present = np.asarray(worlds.kind[0]) >= 0
    tags = np.asarray(worlds.tag)
    assert (tags[:, ~present] == -1).all()
    for side, low in ((slice(0, 8), 8), (slice(8, 16), 0)):
        drawn = tags[:, side][:, present[side]]
        assert set(drawn.ravel()) == set(range(low, low + 8))
        assert all(len(set(row)) == len(row) for row in drawn)


def test_units_of_a_type_are_in_the_order_of_their_x():
    battle = built("3-8csz")
    world = battle.reset(battle.tasks[-2], jax.random.key(3))
    allies = [battle.game.table.names[kind] for kind in world.kind[:8] if kind >= 0]
    assert allies == sorted(allies)
    kind, x = np.asarray(world.kind), np.asarray(world.x)
    for slots in (slice(0, 8), slice(8, 16)):
        for one in set(kind[slots]):
            assert (np.diff(x[slots][kind[slots] == one]) >= 0).all()


@pytest.mark.parametrize("name", plugins.folders("refil.envs")[0].names())
def test_every_set_can_be_played(name):
    battle = built(name)
    spec = battle.spec
    world = jax.eval_shape(battle.reset, battle.tasks[0], jax.random.key(0))
    after, outcome = jax.eval_shape(battle.step, world, jnp.zeros(spec.agents, jnp.int32), jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), world
    )
    obs = jax.eval_shape(battle.observe, world)
    assert obs.entities.shape == (spec.entities, spec.features)
    assert outcome.reward.shape == ()


def test_where_the_classic_maps_begin():
    battle = built("3s5z")
    world = battle.reset(battle.tasks[0], jax.random.key(0))
    assert float(world.x[:8].mean()) == pytest.approx(9, abs=0.7)
    assert float(world.x[8:].mean()) == pytest.approx(23, abs=0.7)
    assert (float(world.goal_x[8]), float(world.goal_y[8])) == pytest.approx((9, 16))
    assert spawn.on_the_map(16.0, 24.5, 0.375, battle.game.arena) is False
