"""The kernel against the loops that it stands for: here interpreted, on a GPU as it is."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.combat import tick, tick_kernel
from refil.envs.combat.rules import LOOPS
from tests.gpu import program_for_gpu

SETS = ["3-8sz", "3-8csz", "3-8MMM", "6-11m_mandown", "bane_vs_bane"]
EXACT = ("kind", "tag", "target", "attacker", "veer", "quiet", "roams", "going")


def amid_battle(name, battles, steps=8):
    """Battles after some random steps, with orders given, battles last; and a step's jitter."""
    module = plugins.load("refil.envs", name)
    battle = module.build(module.Config())
    keys = jax.random.split(jax.random.key(battles), battles)
    tasks = battle.tasks[jnp.arange(battles) % len(battle.task_names)]

    def to_here(task, key):
        def step(world, key):
            chance = jax.random.uniform(key, (battle.spec.agents, battle.spec.actions))
            actions = jnp.argmax(jnp.where(battle.available(world), chance, -1.0), axis=-1)
            ordered = battle.ordered(world, actions)
            return plainly(battle.game, ordered, battle.jitter(key)), ordered

        return jax.tree.map(lambda leaf: leaf[-1], jax.lax.scan(step, battle.reset(task, key), jax.random.split(key, steps))[1])

    worlds = jax.jit(jax.vmap(to_here))(tasks, keys)
    jitter = jax.vmap(battle.jitter)(keys)
    return battle.game, *jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), (worlds, jitter))


def plainly(game, world, jitter):
    """A step's loops by XLA."""
    traits = game.table[world.kind]
    return jax.lax.fori_loop(0, LOOPS, lambda _, now: tick.tick(now, traits, jitter, game), world)


def assert_same(one, other, share=1.0):
    """Equal but for rounding, in all battles or in this share of them: rounding can decide whether a body is in the way."""
    same = np.ones(one.time.shape, bool)
    for name in tick_kernel.UNITS:
        left, right = np.asarray(getattr(one, name), np.float64), np.asarray(getattr(other, name), np.float64)
        same &= (np.abs(left - right) <= (0 if name in EXACT else 1e-3)).all(axis=0)
    assert same.mean() >= share, f"{(~same).sum()} of {same.size} battles are not the same"


@pytest.mark.parametrize("name", SETS)
def test_the_kernel_does_what_the_loops_do(name):
    game, world, jitter = amid_battle(name, battles=5)
    assert_same(tick_kernel.pass_loops(world, jitter, game, interpret=True), jax.jit(partial(plainly, game))(world, jitter))


def test_batches_may_have_several_axes():
    game, world, jitter = amid_battle("3-8sz", battles=6)
    plain = tick_kernel.pass_loops(world, jitter, game, interpret=True)
    units = {name: getattr(world, name).reshape(-1, 2, 3) for name in tick_kernel.UNITS}
    folded = replace(world, **units, time=world.time.reshape(2, 3))
    kernel = tick_kernel.pass_loops(folded, jitter.reshape(-1, 2, 3), game, interpret=True)
    np.testing.assert_array_equal(kernel.x.reshape(plain.x.shape), plain.x)
    assert kernel.time.shape == (2, 3)


def test_without_a_gpu_the_loops_are_plain():
    _, world, _ = amid_battle("3-8sz", battles=2)
    assert not tick_kernel.fits(world)


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
    assert_same(kernel, jax.jit(partial(plainly, game))(world, jitter), share=0.9)
