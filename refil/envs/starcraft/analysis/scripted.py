"""Battles with scripted allies, many at once, and what came of them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from refil.envs.starcraft import reward
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import LOOPS
from refil.envs.starcraft.sim.state import World
from refil.types import Outcome

Command = Callable[[Battle, World, PRNGKeyArray], World]


class Fights(NamedTuple):
    """How battles ended: `result` in the words of reward.py, undecided where time ran out."""

    result: Int[Array, " battles"]
    length: Int[Array, " battles"]
    returns: Float[Array, " battles"]
    begun: World
    ended: World


def fight(battle: Battle, command: Command, worlds: World, keys: Key[Array, " battles"]) -> Fights:
    """Play battles from these first instants to their ends."""

    def step(now: tuple) -> tuple:
        world, over, returns, time = now
        following, outcome = jax.vmap(one_step, in_axes=(None, None, 0, 0, None))(battle, command, world, keys, time)
        world = jax.tree.map(lambda new, old: jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), old, new), following, world)
        return world, over | outcome.terminated, returns + jnp.where(over, 0.0, outcome.reward), time + 1

    def going_on(now: tuple) -> Bool[Array, ""]:
        return ~now[1].all()

    start = worlds, jnp.zeros(keys.shape, bool), jnp.zeros(keys.shape), jnp.zeros((), jnp.int32)
    ended, _, returns, _ = jax.lax.while_loop(going_on, step, start)
    result = jax.vmap(lambda world: reward.outcome(world, battle.game, battle.config.healers_alone_lose))(ended)
    return Fights(result, ended.time, returns, worlds, ended)


def one_step(battle: Battle, command: Command, world: World, key: PRNGKeyArray, time: Array) -> tuple[World, Outcome]:
    """The script's orders, then eight loops."""
    key_command, key_loops = keys_at(key, time)
    after = battle.pass_time(command(battle, world, key_command), key_loops)
    return after, battle.outcome(world, after)


def keys_at(key: PRNGKeyArray, time: Int[Array, ""]) -> Key[Array, "2"]:
    """For what a script leaves to chance in a step, and for what the battle does."""
    return jax.random.split(jax.random.fold_in(key, time))


def step_by_loops(battle: Battle, command: Command, world: World, key: PRNGKeyArray) -> tuple[World, Bool[Array, ""]]:
    """One step loop by loop: the world after each, and whether the battle is over."""
    key_command, key_loops = keys_at(key, world.time)
    ordered, jitter = command(battle, world, key_command), battle.jitter(key_loops)
    traits = battle.game.table[world.kind]

    def loop(now: World, _: None) -> tuple[World, World]:
        following = tick.tick(now, traits, jitter, battle.game)
        return following, following

    seen = jax.lax.scan(loop, ordered, None, length=LOOPS)[1]
    after = battle.tick_clock(jax.tree.map(lambda leaf: leaf[-1], seen))
    return seen, battle.outcome(world, after).terminated


def summary(battle: Battle, fights: Fights) -> dict[str, int | float]:
    """Shares, means and spreads over battles."""
    result, length = np.asarray(fights.result), np.asarray(fights.length)
    ally = np.arange(battle.game.units) < battle.game.allies
    alive = np.asarray(fights.ended.health) > 0
    life = [np.asarray(world.health + world.shield, np.float64) for world in (fights.begun, fights.ended)]
    left = {team: alive[:, its].sum(axis=1) for team, its in (("allies", ally), ("enemies", ~ally))}
    share = {
        team: life[1][:, its].sum(axis=1) / np.maximum(life[0][:, its].sum(axis=1), 1e-9)
        for team, its in (("ally", ally), ("enemy", ~ally))
    }
    return {
        "episodes": len(result),
        "win_rate": float((result == reward.WON).mean()),
        "loss_rate": float((result == reward.LOST).mean()),
        "draw_rate": float((result == reward.BOTH_DEAD).mean()),
        "timeout_rate": float((result == reward.UNDECIDED).mean()),
        "length_mean": float(length.mean()),
        "length_std": float(length.std()),
        **{f"{team}_left_{name}": float(f(left[team])) for team in left for name, f in (("mean", np.mean), ("std", np.std))},
        **{
            f"{team}_health_left_{name}": float(f(share[team]))
            for team in share
            for name, f in (("mean", np.mean), ("std", np.std))
        },
        "return_mean": float(np.mean(fights.returns)),
        "return_std": float(np.std(fights.returns)),
    }
