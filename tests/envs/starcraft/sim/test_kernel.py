"""The kernel gives the same states as plain ticks: interpreted on a CPU, compiled on a GPU."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import hardware, plugins
from refil.envs.starcraft import orders
from refil.envs.starcraft.env import UNITS as UNITS_FOLDER
from refil.envs.starcraft.env import unit_table
from refil.envs.starcraft.sim import kernel, neighbors, tick
from refil.envs.starcraft.sim.kernel import Plan
from refil.envs.starcraft.sim.rules import SHIELD_DELAY, TICKS_PER_STEP
from refil.hardware import Choice
from tests.envs.starcraft import scenes
from tests.gpu import program_for_gpu
from tests.slow import all_but

UNITS = [plugins.load(UNITS_FOLDER, name) for name in plugins.names(UNITS_FOLDER)]
ALL_UNITS, ALL_SMACLITE_UNITS = (
    f"{army}_vs_{army}"
    for army in (
        "".join(f"1{unit.UNIT.letter}" for unit in UNITS),
        "".join(f"1{unit.SMACLITE.letter}" for unit in UNITS if unit.SMACLITE is not None),
    )
)
SETS = ["3-8sz", "3-8sz-varied", "3-8csz", "3-8MMM", ALL_UNITS]
SMACLITE_SETS = ["3-8MMM", ALL_SMACLITE_UNITS]
LARGE = [(16, Plan()), (16, Plan(near_only=True)), (32, Plan(4)), (32, Plan(2, near_only=True)), (64, Plan(4, near_only=True))]
EXACT = ("unit_type", "tag", "target", "attacker", "turn_side", "ticks_since_hit", "attack_moving", "moving")


def amid_battle(name, battles, profile="smac"):
    """Return battles with orders given, in the step in which the most units are hit, and that step's jitter.

    Batch axes are last. Allies attack random targets in range, and otherwise move at random.
    """
    module = plugins.load("refil.envs", name)
    env = module.build(module.Config(profile=profile))
    start_key, *step_keys = jax.random.split(jax.random.key(battles), 31)
    tasks = jax.tree.map(lambda rows: rows[jnp.arange(battles) % len(env.task_names)], env.tasks)

    def step(state, key):
        action_key, sim_key = jax.random.split(key)
        noise = jax.random.uniform(action_key, (env.spec.agents, env.spec.actions)).at[:, orders.FIRST_TARGET :].add(1.0)
        ordered = env.with_orders(state, jnp.argmax(jnp.where(env.available_actions(state), noise, -1.0), axis=-1))
        jitter = env.cooldown_jitter(sim_key)
        after = plain_ticks(env.game, ordered, jitter)
        return after, (ordered, jitter, (after.ticks_since_hit < TICKS_PER_STEP) & ordered.alive)

    def all_battles(states, key):
        return jax.vmap(step)(states, jax.random.split(key, battles))

    first = jax.jit(jax.vmap(env.reset))(tasks, jax.random.split(start_key, battles))
    ordered, jitter, was_hit = jax.jit(partial(jax.lax.scan, all_battles))(first, jnp.stack(step_keys))[1]
    when = int(was_hit.sum(axis=(1, 2)).argmax())
    assert was_hit[when].any(axis=1).mean() > 0.5, "this step shows little: in most battles no unit was hit"
    return env.game, *jax.tree.map(lambda leaf: jnp.moveaxis(leaf[when], 0, -1), (ordered, jitter))


def plain_ticks(game, state, jitter):
    """Simulate a step without the kernel."""
    stats = game.stats(state)
    return jax.lax.fori_loop(0, TICKS_PER_STEP, lambda _, now: tick.tick(now, stats, jitter, game), state)


def assert_same(one, other, fraction=1.0):
    """Compare states up to rounding, in a fraction of all battles: rounding can decide whether a unit is blocked."""
    same = np.ones(one.time.shape, bool)
    for name in kernel.FIELDS:
        left, right = np.asarray(getattr(one, name), np.float64), np.asarray(getattr(other, name), np.float64)
        same &= (np.abs(left - right) <= (0 if name in EXACT else 1e-3)).all(axis=0)
    assert same.mean() >= fraction, f"{(~same).sum()} of {same.size} battles are not the same"


@pytest.mark.parametrize("name", all_but((*SETS[:2],), SETS))
def test_the_kernel_equals_plain_ticks(name):
    game, state, jitter = amid_battle(name, battles=5)
    assert_same(kernel.run_ticks(state, jitter, game, interpret=True), jax.jit(partial(plain_ticks, game))(state, jitter))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMACLITE_SETS)
def test_the_kernel_equals_plain_ticks_with_smaclites_rules(name):
    game, state, jitter = amid_battle(name, battles=3, profile="smaclite")
    assert_same(kernel.run_ticks(state, jitter, game, interpret=True), jax.jit(partial(plain_ticks, game))(state, jitter))


def assert_equal(one, other):
    """Compare states bit by bit."""
    for name in kernel.FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def clash(size, step):
    """Return two battles of two blocks of Marines that meet in the center, after some steps, and the jitter of the next one."""
    game = replace(scenes.game(size, 2 * size), table=unit_table([({"m": size}, {"m": size})], "smac"))
    rows = [(0.8 * (number % 4), 0.8 * (number // 4) + 16 - 0.1 * size) for number in range(size)]
    units = [("marine", 12 - x, y) for x, y in rows] + [("marine", 20 + x, y) for x, y in rows]
    ones, center = [1] * 2 * size, [16.0] * 2 * size
    first = scenes.place(units, game, moving=ones, attack_moving=ones, goal_x=center, goal_y=center)
    moved = replace(first, y=first.y + jnp.linspace(0, 0.04, 2 * size))
    jitter = jax.random.uniform(jax.random.key(size), (2 * size, 2))
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=-1), first, moved)
    run = jax.jit(lambda now: plain_ticks(game, now, jitter))
    for _ in range(step):
        state = run(state)
    assert (state.ticks_since_hit <= SHIELD_DELAY).any(), "they have not met"
    return game, state, jitter, run(state)


@pytest.mark.parametrize("rows", all_but((neighbors.ROWS,), [neighbors.ROWS, 1]))
@pytest.mark.parametrize("name", all_but(("3-8sz",), ["3-8sz", "MMM2"]))
def test_looking_only_at_units_that_are_near_changes_nothing_even_if_there_is_room_for_few(name, rows, monkeypatch):
    monkeypatch.setattr(neighbors, "ROWS", rows)
    game, state, jitter = amid_battle(name, battles=5)
    result = kernel.run_ticks(state, jitter, game, interpret=True, plan=Plan(near_only=True))
    assert_equal(result, jax.jit(partial(plain_ticks, game))(state, jitter))


@pytest.mark.parametrize("case", all_but(((32, Plan(2, near_only=True)),), LARGE), ids=str)
def test_battles_of_large_armies_are_equal(case):
    size, plan = case
    game, state, jitter, expected = clash(size, step=4)
    assert_equal(kernel.run_ticks(state, jitter, game, interpret=True, plan=plan), expected)


@pytest.mark.slow
def test_batches_can_have_several_axes():
    game, state, jitter = amid_battle("3-8sz", battles=6)
    plain = kernel.run_ticks(state, jitter, game, interpret=True)
    units = {name: getattr(state, name).reshape(-1, 2, 3) for name in kernel.FIELDS}
    nested = replace(state, **units, time=state.time.reshape(2, 3))
    result = kernel.run_ticks(nested, jitter.reshape(-1, 2, 3), game, interpret=True)
    np.testing.assert_array_equal(result.x.reshape(plain.x.shape), plain.x)
    assert result.time.shape == (2, 3)


@pytest.mark.parametrize(("compiler", "most"), [("Pallas", 32), ("Triton", 128)])
def test_the_kernel_supports_batches_of_many_units_on_a_gpu(monkeypatch, compiler, most):
    monkeypatch.setattr(hardware, "compiler", lambda: compiler)
    alone, larger = (scenes.place([("marine", 1 + number, 16)] * number, scenes.game(1, number)) for number in (most, most + 1))
    many, larger = (jax.tree.map(lambda leaf: jnp.stack([leaf, leaf], axis=-1), state) for state in (alone, larger))
    monkeypatch.setattr(kernel, "kernels", lambda: Choice(True, "for this test"))
    assert kernel.is_supported(many)
    assert not kernel.is_supported(larger)
    assert not kernel.is_supported(alone)
    monkeypatch.setattr(kernel, "kernels", lambda: Choice(False, "for this test"))
    assert not kernel.is_supported(many)


def test_batches_of_steps_use_the_kernel(monkeypatch):
    monkeypatch.setattr(kernel, "kernels", lambda: Choice(True, "for this test"))
    module = plugins.load("refil.envs", "3m")
    env = module.build(module.Config())
    given = jax.eval_shape(jax.vmap(env.reset, in_axes=(None, 0)), env.tasks[0], jax.random.split(jax.random.key(0), 4))
    text = program_for_gpu(jax.vmap(env.step), given, jnp.ones((4, 3), int), jax.random.split(jax.random.key(1), 4))
    assert "game_ticks" in text


@pytest.mark.parametrize("name", all_but((ALL_UNITS,), SETS))
def test_the_kernel_lowers_for_a_gpu(name):
    game, state, jitter = amid_battle(name, battles=3)
    assert "game_ticks" in program_for_gpu(lambda state, jitter: kernel.run_ticks(state, jitter, game), state, jitter)


@pytest.mark.gpu
@pytest.mark.parametrize("battles", [3, 128, 5000])
@pytest.mark.parametrize("name", SETS)
def test_on_a_gpu_the_kernel_equals_plain_ticks(name, battles):
    game, state, jitter = amid_battle(name, battles)
    assert kernel.is_supported(state)
    result = jax.jit(lambda state, jitter: kernel.run_ticks(state, jitter, game))(state, jitter)
    assert_same(
        result, jax.jit(partial(plain_ticks, game))(state, jitter), fraction=0.9
    )  # eight ticks, and bodies close together
