"""How far rounding moves the gradient of a run's networks, beside how far another batch moves it.

    python benchmarks/precision.py RUN
    python benchmarks/precision.py RUN --batches 8

The run's models play batches of episodes, and are their own targets. For each seed and batch the gradient is worked out in
float32, in TF32 (on a GPU; elsewhere products are float32's) and with bfloat16 rows. Printed is, as a share of the float32
gradient's norm, how far each is from it; and how far the float32 gradient of one batch is from that of the next.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from refil import collect, experiment, learn, runs
from refil.schedule import Loop
from refil.types import Model, Recording

BATCHES_OF = 32  # episodes, as the paper's


def main() -> None:
    """Measure, and print a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=3)
    given = parser.parse_args()
    run = runs.existing(given.run)
    built = run.experiment.build()
    models = jax.tree.map(jnp.asarray, run.load_models(built.method.init(jax.random.key(0))))
    play = jax.jit(partial(collect.random_tasks, built.env, envs=BATCHES_OF))
    gradients = {name: gradient(built, name) for name in experiment.PRODUCTS}
    print(f"{run.experiment.method} on {run.experiment.env}, {given.batches} batches of {BATCHES_OF} episodes")
    for row, seed in enumerate(run.seeds):
        one = jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], models)
        found: dict[str, list[Array]] = {name: [] for name in gradients}
        for key_play, key_learn in jax.random.split(jax.random.key(0), (given.batches, 2)):
            played = play(models=one, epsilon=jnp.array([built.schedule.epsilon_finish]), keys=key_play[None])
            for name, worked_out in gradients.items():
                found[name].append(worked_out(*jax.tree.map(lambda leaf: leaf[0], (one, played)), key_learn))
        print(f"seed {seed}: {told({name: jnp.stack(rows) for name, rows in found.items()})}", flush=True)


def told(gradients: dict[str, Float[Array, "batches parameters"]]) -> str:
    """How far apart they are."""
    exact = gradients.pop("float32")
    parts = [f"{name} {span(apart(other, exact))}" for name, other in gradients.items()]
    return ", ".join([*parts, f"another batch {span(apart(jnp.roll(exact, 1, axis=0), exact))}"])


def gradient(built: Loop, precision: str) -> Callable[[Model, Recording, Array], Float[Array, " parameters"]]:
    """Of a batch's loss, with products and rows of this precision."""

    @jax.jit
    def worked_out(model: Model, batch: Recording, key: Array) -> Array:
        learner, episodes = learn.learner(model, model, built.optimiser), collect.recall(built.env, batch)
        return learn.gradient(built.method, learner, episodes, key, experiment.ACTIVATIONS[precision])[0]

    def at_this_precision(*arguments: object) -> Array:
        with jax.default_matmul_precision(experiment.PRODUCTS[precision]):
            return worked_out(*arguments)

    return at_this_precision


def apart(one: Float[Array, "batches parameters"], other: Float[Array, "batches parameters"]) -> Float[Array, " batches"]:
    """Each gradient's distance from the other, as a share of the other's norm."""
    return jnp.linalg.norm(one - other, axis=1) / jnp.linalg.norm(other, axis=1)


def span(shares: Float[Array, " batches"]) -> str:
    """The least and the most."""
    return f"{shares.min():.1%} to {shares.max():.1%}"


if __name__ == "__main__":
    main()
