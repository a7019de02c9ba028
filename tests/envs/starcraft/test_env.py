"""The StarCraft environment: invariants of random battles, sizes, and initial states."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.envs import starcraft
from refil.envs.starcraft import observe, orders, reward, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.rules import SMAC
from refil.envs.starcraft.sim.state import ARENAS, Game
from refil.errors import RefilError
from tests.envs.starcraft.scenes import TABLES
from tests.slow import all_but

SIDE, BATCH, STEPS = 6, 16, 30
FREE = StarCraft(  # any types against any types
    game=Game(SIDE, 2 * SIDE, TABLES["smac"], ARENAS["any_angle"], SMAC),
    config=Config(),
    limit=150,
    reward_divisor=50.0,
    armies=np.zeros((1, 2 * SIDE), np.int8),
    task_names=("free",),
)


def built(name: str, **options) -> StarCraft:
    module = plugins.load("refil.envs", name)
    return module.build(module.Config(**options))


def random_step(env: StarCraft, state, key):
    actions_key, step_key = jax.random.split(key)
    available = env.available_actions(state)
    actions = jax.random.categorical(actions_key, jnp.where(available, 0.0, -jnp.inf))
    after, outcome = env.step(state, actions, step_key)
    return after, (state, after, outcome, available)


@partial(jax.jit, static_argnums=(0, 3))
def play(env: StarCraft, tasks, keys, steps):
    def one(task, key):
        reset_key, steps_key = jax.random.split(key)
        return jax.lax.scan(partial(random_step, env), env.reset(task, reset_key), jax.random.split(steps_key, steps))[1]

    return jax.vmap(one)(tasks, keys)


def overlap(env: StarCraft, states) -> np.ndarray:
    """Return the deepest overlap of two bodies at each timestep."""

    def deepest(state):
        distance = jnp.hypot(state.x[:, None] - state.x, state.y[:, None] - state.y)
        return (motion.contact_distances(state, env.game.table[state.unit_type]) - distance).max()

    return np.asarray(jax.vmap(jax.vmap(deepest))(states))


def check(env: StarCraft, played) -> None:
    """Check what holds at every timestep of every battle."""
    before, after, outcome, available = jax.tree.map(np.asarray, played)
    for leaf in jax.tree.leaves(after):
        assert np.isfinite(leaf).all()
    stats = jax.tree.map(np.asarray, env.game.stats(jax.tree.map(jnp.asarray, after)))
    for name in ("health", "shield", "energy"):
        value = getattr(after, name)
        assert (value >= 0).all()
        assert (value <= getattr(stats, f"max_{name}") + 1e-4).all()
    assert (after.cooldown >= 0).all()
    assert (after.cooldown <= stats.attack_period + 2).all()

    arena, present, radius = env.game.arena, after.unit_type >= 0, stats.collision_radius - 1e-5
    for place, low, high in ((after.x, arena.west, arena.east), (after.y, arena.south, arena.north)):
        assert (place >= low + radius)[present].all()
        assert (place <= high - radius)[present].all()
    assert overlap(env, played[1]).max() <= 0.02

    dead = (before.health <= 0) & (after.health <= 0)
    assert (after.health[before.health <= 0] == 0).all()
    for name in ("x", "y"):
        assert (getattr(before, name) == getattr(after, name))[dead].all()
    assert (after.shield[after.health <= 0] == 0).all()

    assert available.any(axis=-1).all()
    alive = before.health[..., : env.game.num_allies] > 0
    assert (available[..., orders.NO_OP] == ~alive).all()

    enemies = slice(env.game.num_allies, None)
    lost = (before.health + before.shield - after.health - after.shield)[..., enemies].sum(axis=-1)
    killed = ((before.health > 0) & (after.health <= 0))[..., enemies].sum(axis=-1)
    raw = np.abs(lost + reward.KILL_BONUS * killed) + reward.WIN_BONUS * outcome.won
    np.testing.assert_allclose(outcome.reward * env.reward_divisor, raw, atol=2e-2)


unit_types = st.lists(st.integers(-1, len(TABLES["smac"].units) - 1), min_size=2 * SIDE, max_size=2 * SIDE)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=st.lists(unit_types, min_size=BATCH, max_size=BATCH), seed=st.integers(0, 2**31 - 1))
def test_units_of_any_types_stay_within_their_bounds(rows, seed):
    tasks = jnp.array(rows, jnp.int8).at[:, 0].set(0).at[:, SIDE].set(1)
    check(FREE, play(FREE, tasks, jax.random.split(jax.random.key(seed), BATCH), STEPS))


@pytest.mark.parametrize("name", ["3-8sz", *(pytest.param(name, marks=pytest.mark.slow) for name in ("3-8csz", "3-8MMM"))])
def test_units_of_the_papers_task_sets_stay_within_their_bounds(name):
    env = built(name)
    tasks = env.tasks[:: max(1, len(env.tasks) // BATCH)]
    check(env, play(env, tasks, jax.random.split(jax.random.key(0), len(tasks)), 200))


@pytest.mark.slow
def test_armies_of_thirty_units_do_not_overlap():
    env = built("27m_vs_30m")
    played = play(env, jnp.repeat(env.tasks, 4, axis=0), jax.random.split(jax.random.key(0), 4), 60)
    assert overlap(env, played[1]).max() <= 0.02
    start = jax.jit(jax.vmap(env.reset))(jnp.repeat(env.tasks, 4, axis=0), jax.random.split(jax.random.key(1), 4))
    assert overlap(env, jax.tree.map(lambda leaf: leaf[:, None], start)).max() <= 0.02


def test_a_battle_in_a_batch_equals_the_battle_alone():
    env = built("3-8sz")
    keys = jax.random.split(jax.random.key(5), 3)
    together = play(env, env.tasks[10:13], keys, 40)[1]
    for number in range(3):
        alone = play(env, env.tasks[10 + number : 11 + number], keys[number : number + 1], 40)[1]
        for ours, theirs in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[number])


@pytest.mark.slow
def test_two_batch_axes_give_the_same_result_as_one():
    env = built("3-8sz")
    keys = jax.random.split(jax.random.key(5), 4)
    states = jax.jit(jax.vmap(env.reset))(env.tasks[20:24], keys)
    actions = jnp.full((4, 8), orders.STOP)
    flat, _ = jax.jit(jax.vmap(env.step))(states, actions, keys)
    square = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (states, actions, keys))
    nested, _ = jax.jit(jax.vmap(jax.vmap(env.step)))(*square)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.reshape(b.shape), b), nested, flat)


def test_living_allies_see_each_other():
    env = built("3-8MMM")
    states = play(env, env.tasks[::8], jax.random.split(jax.random.key(2), 9), 40)[1]
    seen = jax.vmap(jax.vmap(lambda state: observe.visible(state, env.game)))(states)
    among = np.asarray(seen[..., : env.game.num_allies])
    assert (among == np.swapaxes(among, -1, -2)).all()


def test_target_actions_are_available_to_near_agents_that_attack_or_heal_the_unit():
    env = built("3-8MMM")
    states = play(env, env.tasks[::8], jax.random.split(jax.random.key(2), 9), 40)[0]
    obs = jax.tree.map(np.asarray, jax.jit(jax.vmap(jax.vmap(env.observe)))(states))
    unit_type, tag, x, y, health = (np.asarray(getattr(states, name)) for name in ("unit_type", "tag", "x", "y", "health"))
    np.testing.assert_array_equal(obs.targeting_action, np.where(unit_type >= 0, 6 + tag, -1))

    flies = unit_type == env.game.table.names.index("medivac")
    distance = np.hypot(x[..., :8, None] - x[..., None, :], y[..., :8, None] - y[..., None, :])
    ally, itself = np.arange(16) < 8, np.eye(8, 16, dtype=bool)
    healable, attackable = ally & ~itself & ~flies[..., None, :], ~ally
    heals = flies[..., :8, None]
    alive = (health > 0)[..., :8, None] & (health > 0)[..., None, :]
    near = np.where(heals, healable, attackable) & alive & (distance <= 6)
    available = np.take_along_axis(obs.available, np.maximum(obs.targeting_action, 0)[..., None, :], axis=-1)
    np.testing.assert_array_equal(available & (unit_type >= 0)[..., None, :], near)
    np.testing.assert_array_equal(obs.available[..., 6:].sum(axis=-1), near.sum(axis=-1))  # and nothing else is
    assert (near & heals).any()
    assert (near & ~heals).any()


def test_without_healers_no_action_targets_an_ally():
    env = built("3-8sz")
    state = env.reset(env.tasks[20], jax.random.key(6))
    aims, enemy = np.asarray(env.observe(state).targeting_action), np.asarray(state.unit_type[8:]) >= 0
    np.testing.assert_array_equal(aims[:8], -1)
    np.testing.assert_array_equal(aims[8:], np.where(enemy, 6 + np.asarray(state.tag[8:]), -1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3-8sz", "3-8csz", "3-8MMM"])
def test_a_team_that_only_stops_does_no_damage_and_loses(name):
    env = built(name)
    tasks = env.tasks[:: len(env.tasks) // 6]

    def step(carry, key):
        after, outcome = env.step(carry, jnp.full((8,), orders.STOP), key)
        return after, (after, outcome)

    def one(task, key):
        return jax.lax.scan(step, env.reset(task, key), jax.random.split(key, 150))[1]

    states, outcome = jax.jit(jax.vmap(one))(tasks, jax.random.split(jax.random.key(0), len(tasks)))
    first = np.argmax(np.asarray(outcome.terminated), axis=1)
    for number, end in enumerate(first):
        state = jax.tree.map(lambda leaf, n=number, t=end: leaf[n, t], states)
        assert int(reward.battle_result(state, env.game, healers_alone_lose=True)) == reward.LOST
        assert float(outcome.reward[number, : end + 1].sum()) == 0
        stats = env.game.table[state.unit_type]
        assert (state.health + state.shield)[8:].tolist() == (stats.max_health + stats.max_shield)[8:].tolist()


SIZES = [("3-8sz", 39, 14, 38), ("3-8csz", 66, 14, 39), ("3-8MMM", 66, 22, 46)]


@pytest.mark.parametrize(("name", "tasks", "actions", "features"), SIZES)
def test_sizes_are_the_papers(name, tasks, actions, features):
    env = built(name)
    assert len(env.task_names) == len(env.tasks) == tasks
    assert (env.spec.actions, env.spec.features, env.spec.entities, env.spec.horizon) == (
        actions,
        features,
        16,
        150,
    )
    assert len(set(env.task_names)) == tasks


def test_armies_start_fourteen_cells_apart_at_any_angle():
    env = built("3-8sz")
    keys = jax.random.split(jax.random.key(0), 400)
    states = jax.jit(jax.vmap(lambda key: env.reset(env.tasks[-1], key)))(keys)  # 8z: one block a side
    ally, enemy = (np.stack([states.x[:, s].mean(1), states.y[:, s].mean(1)], -1) for s in (slice(0, 8), slice(8, 16)))
    apart = np.linalg.norm(ally - enemy, axis=1)
    assert abs(apart.mean() - 14) < 0.2
    assert 11 < apart.min() < apart.max() < 17
    angle = np.arctan2(*(ally - 16).T)
    assert np.abs(np.histogram(angle, 4)[0] - 100).max() < 40
    goal = np.asarray([states.goal_x[:, 8], states.goal_y[:, 8]]).T
    np.testing.assert_allclose(goal, ally, atol=1e-4)  # the enemy attack-moves to the mean position of the allies


def test_tags_are_random_and_enemies_have_the_first_ones():
    env = built("3-8sz")
    states = jax.jit(jax.vmap(lambda key: env.reset(env.tasks[10], key)))(jax.random.split(jax.random.key(0), 50))
    present = np.asarray(states.unit_type[0]) >= 0
    tags = np.asarray(states.tag)
    assert (tags[:, ~present] == -1).all()
    for side, low in ((slice(0, 8), 8), (slice(8, 16), 0)):
        drawn = tags[:, side][:, present[side]]
        assert set(drawn.ravel()) == set(range(low, low + 8))
        assert all(len(set(row)) == len(row) for row in drawn)


def test_units_of_a_type_are_sorted_by_x():
    env = built("3-8csz")
    state = env.reset(env.tasks[-2], jax.random.key(3))
    allies = [env.game.table.names[unit_type] for unit_type in state.unit_type[:8] if unit_type >= 0]
    assert allies == sorted(allies)
    unit_type, x = np.asarray(state.unit_type), np.asarray(state.x)
    for slots in (slice(0, 8), slice(8, 16)):
        for one in set(unit_type[slots]):
            assert (np.diff(x[slots][unit_type[slots] == one]) >= 0).all()


@pytest.mark.parametrize("name", all_but(("3-8csz", "bane_vs_bane", "MMM2"), starcraft.names()))
def test_every_task_set_has_consistent_shapes(name):
    env = built(name)
    spec = env.spec
    state = jax.eval_shape(env.reset, jax.tree.map(lambda rows: rows[0], env.tasks), jax.random.key(0))
    after, outcome = jax.eval_shape(env.step, state, jnp.zeros(spec.agents, jnp.int32), jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )
    obs = jax.eval_shape(env.observe, state)
    assert obs.entities.shape == (spec.entities, spec.features)
    assert outcome.reward.shape == ()


def test_armies_on_classic_maps_start_in_the_west_and_in_the_east():
    env = built("3s5z")
    state = env.reset(env.tasks[0], jax.random.key(0))
    assert float(state.x[:8].mean()) == pytest.approx(9, abs=0.7)
    assert float(state.x[8:].mean()) == pytest.approx(23, abs=0.7)
    assert (float(state.goal_x[8]), float(state.goal_y[8])) == pytest.approx((9, 16))
    assert spawn.is_on_map(16.0, 24.5, 0.375, env.game.arena) is False


def test_more_tags_give_sizes_for_larger_armies_and_all_of_them_are_drawn():
    small, large = built("2-4m", tags=7), built("7m", tags=7)
    assert (small.spec.features, small.spec.actions) == (large.spec.features, large.spec.actions)
    assert small.spec.entities == 8
    keys = jax.random.split(jax.random.key(0), 64)
    states = jax.vmap(lambda key: small.reset(small.tasks[-1], key))(keys)  # 4 Marines on each side
    tags = np.asarray(states.tag)
    assert all(len(set(row)) == 8 for row in tags.tolist())
    assert set(tags[:, 4:].ravel().tolist()) == set(range(7))  # enemies
    assert set(tags[:, :4].ravel().tolist()) == set(range(7, 14))
    obs = jax.vmap(small.observe)(states)
    np.testing.assert_array_equal(obs.entities[..., :14].argmax(axis=-1), tags)


def test_an_action_targets_the_enemy_with_its_tag_whatever_the_number_of_tags():
    env = built("3m", tags=9)
    state = env.reset(env.tasks[0], jax.random.key(0))
    near = replace(state, x=jnp.linspace(10.0, 13.0, 6), y=jnp.full(6, 10.0))
    enemy = 4
    ordered = env.with_orders(near, jnp.full(3, orders.FIRST_TARGET + near.tag[enemy]))
    assert ordered.target[:3].tolist() == [enemy] * 3
    assert env.available_actions(near)[:, orders.FIRST_TARGET :].sum(axis=1).tolist() == [3, 3, 3]


@pytest.mark.parametrize("tags", [2, 129])
def test_every_unit_needs_a_tag(tags):
    with pytest.raises(RefilError, match=rf"env.tags is {tags}; it must be between 3, the largest army, and 128"):
        built("3m", tags=tags)
