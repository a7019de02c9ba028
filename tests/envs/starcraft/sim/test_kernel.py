"""The kernel against the loops that it stands for: here interpreted, on a GPU as it is."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import orders
from refil.envs.starcraft.env import UNITS as UNITS_FOLDER
from refil.envs.starcraft.sim import kernel as tick_kernel
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import LOOPS
from tests.envs.starcraft import scenes
from tests.gpu import program_for_gpu

UNITS = [plugins.load(UNITS_FOLDER, name) for name in plugins.names(UNITS_FOLDER)]
EVERYBODY, SMACLITES = (
    f"{army}_vs_{army}"
    for army in (
        "".join(f"1{unit.UNIT.letter}" for unit in UNITS),
        "".join(f"1{unit.SMACLITE.letter}" for unit in UNITS if unit.SMACLITE is not None),
    )
)
SETS = ["3-8sz", "3-8csz", "3-8MMM", EVERYBODY]
AS_SMACLITE = ["3-8MMM", SMACLITES]
EXACT = ("kind", "tag", "target", "attacker", "veer", "quiet", "roams", "going")


def amid_battle(name, battles, profile="smac"):
    """Battles in the step that hurts most units, with orders given, battles last; and that step's jitter.

    Allies shoot at whom they may, at random, or else step about.
    """
    module = plugins.load("refil.envs", name)
    battle = module.build(module.Config(profile=profile))
    key_start, *key_steps = jax.random.split(jax.random.key(battles), 31)
    tasks = battle.tasks[jnp.arange(battles) % len(battle.task_names)]

    def step(world, key):
        key_order, key_loops = jax.random.split(key)
        chance = jax.random.uniform(key_order, (battle.spec.agents, battle.spec.actions)).at[:, orders.FIRST_TARGET :].add(1.0)
        ordered = battle.ordered(world, jnp.argmax(jnp.where(battle.available(world), chance, -1.0), axis=-1))
        jitter = battle.jitter(key_loops)
        after = plainly(battle.game, ordered, jitter)
        return after, (ordered, jitter, (after.quiet < LOOPS) & ordered.alive)

    def all_battles(worlds, key):
        return jax.vmap(step)(worlds, jax.random.split(key, battles))

    first = jax.jit(jax.vmap(battle.reset))(tasks, jax.random.split(key_start, battles))
    ordered, jitter, hurt = jax.jit(partial(jax.lax.scan, all_battles))(first, jnp.stack(key_steps))[1]
    when = int(hurt.sum(axis=(1, 2)).argmax())
    assert hurt[when].any(axis=1).mean() > 0.5, "this step shows little: in most battles nobody was hurt"
    return battle.game, *jax.tree.map(lambda leaf: jnp.moveaxis(leaf[when], 0, -1), (ordered, jitter))


def plainly(game, world, jitter):
    """A step's loops by XLA."""
    traits = game.table[world.kind]
    return jax.lax.fori_loop(0, LOOPS, lambda _, now: tick.tick(now, traits, jitter, game), world)


def assert_same(one, other, share=1.0):
    """Equal but for rounding, in all battles or in this share of them: rounding can decide whether a body is in the way."""
    same = np.ones(one.time.shape, bool)
    for name in tick_kernel.FIELDS:
        left, right = np.asarray(getattr(one, name), np.float64), np.asarray(getattr(other, name), np.float64)
        same &= (np.abs(left - right) <= (0 if name in EXACT else 1e-3)).all(axis=0)
    assert same.mean() >= share, f"{(~same).sum()} of {same.size} battles are not the same"


@pytest.mark.parametrize("name", SETS)
def test_the_kernel_does_what_the_loops_do(name):
    game, world, jitter = amid_battle(name, battles=5)
    assert_same(tick_kernel.pass_loops(world, jitter, game, interpret=True), jax.jit(partial(plainly, game))(world, jitter))


@pytest.mark.parametrize("name", AS_SMACLITE)
def test_it_does_so_by_smaclites_rules_too(name):
    game, world, jitter = amid_battle(name, battles=3, profile="smaclite")
    assert_same(tick_kernel.pass_loops(world, jitter, game, interpret=True), jax.jit(partial(plainly, game))(world, jitter))


def test_batches_may_have_several_axes():
    game, world, jitter = amid_battle("3-8sz", battles=6)
    plain = tick_kernel.pass_loops(world, jitter, game, interpret=True)
    units = {name: getattr(world, name).reshape(-1, 2, 3) for name in tick_kernel.FIELDS}
    folded = replace(world, **units, time=world.time.reshape(2, 3))
    kernel = tick_kernel.pass_loops(folded, jitter.reshape(-1, 2, 3), game, interpret=True)
    np.testing.assert_array_equal(kernel.x.reshape(plain.x.shape), plain.x)
    assert kernel.time.shape == (2, 3)


def test_it_is_for_many_battles_of_no_more_than_32_units_on_a_gpu(monkeypatch):
    alone, larger = (scenes.world([("marine", 1 + number, 16)] * number, scenes.game(1, number)) for number in (32, 33))
    many, larger = (jax.tree.map(lambda leaf: jnp.stack([leaf, leaf], axis=-1), world) for world in (alone, larger))
    monkeypatch.setattr(tick_kernel, "available", lambda: True)
    assert tick_kernel.fits(many)
    assert not tick_kernel.fits(larger)
    assert not tick_kernel.fits(alone)
    monkeypatch.setattr(tick_kernel, "available", lambda: False)
    assert not tick_kernel.fits(many)


def test_steps_of_many_battles_go_through_it(monkeypatch):
    monkeypatch.setattr(tick_kernel, "available", lambda: True)
    module = plugins.load("refil.envs", "3m")
    battle = module.build(module.Config())
    given = jax.eval_shape(jax.vmap(battle.reset, in_axes=(None, 0)), battle.tasks[0], jax.random.split(jax.random.key(0), 4))
    text = program_for_gpu(jax.vmap(battle.step), given, jnp.ones((4, 3), int), jax.random.split(jax.random.key(1), 4))
    assert "game_loops" in text


@pytest.mark.parametrize("name", SETS)
def test_a_program_for_a_gpu_can_be_written(name):
    game, world, jitter = amid_battle(name, battles=3)
    assert "game_loops" in program_for_gpu(lambda world, jitter: tick_kernel.pass_loops(world, jitter, game), world, jitter)


@pytest.mark.gpu
@pytest.mark.parametrize("battles", [3, 128, 5000])
@pytest.mark.parametrize("name", SETS)
def test_on_a_gpu_the_kernel_does_what_the_loops_do(name, battles):
    game, world, jitter = amid_battle(name, battles)
    assert tick_kernel.fits(world)
    kernel = jax.jit(lambda world, jitter: tick_kernel.pass_loops(world, jitter, game))(world, jitter)
    assert_same(kernel, jax.jit(partial(plainly, game))(world, jitter), share=0.9)  # eight loops, and bodies close together
