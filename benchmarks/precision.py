"""How far rounding moves the gradient of a run's networks, beside how far another batch moves it.

    python benchmarks/precision.py RUN
    python benchmarks/precision.py RUN --batches 8

The run's models play batches of episodes, and are their own targets. For each seed and batch the loss and its gradient are
worked out in float32, in TF32 (which a GPU has; elsewhere both factors of every product are rounded to its ten bits) and with
bfloat16 rows. Printed is, as a share of float32's, how far each loss and gradient is from it; and how far the float32 gradient
of one batch is from that of the next.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal
from jaxtyping import Array, Float

from refil import rollout
from refil.storage import run_dir
from refil.training import config
from refil.training.replay import learner as learn
from refil.training.setup import Loop
from refil.types import Model, Trajectory

BATCHES_OF = 32  # episodes, as the paper's
TF32 = 8, 10  # bits of its exponent and of its fraction
Both = tuple[Float[Array, " 1"], Float[Array, " parameters"]]  # a batch's loss, and its gradient


def main() -> None:
    """Measure, and print a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=3)
    given = parser.parse_args()
    run = run_dir.existing(given.run)
    built = run.experiment.build()
    models = jax.tree.map(jnp.asarray, run.load_models(built.method.init(jax.random.key(0))))
    play = jax.jit(partial(rollout.random_tasks, built.env, envs=BATCHES_OF))
    worked_out = {name: loss_and_gradient(built, name) for name in config.PRODUCTS}
    print(f"{run.experiment.method} on {run.experiment.env}, {given.batches} batches of {BATCHES_OF} episodes")
    for row, seed in enumerate(run.seeds):
        one = jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], models)
        found: dict[str, list[Both]] = {name: [] for name in worked_out}
        for key_play, key_learn in jax.random.split(jax.random.key(0), (given.batches, 2)):
            played = play(models=one, epsilon=jnp.array([built.schedule.epsilon_finish]), keys=key_play[None])
            for name, of_batch in worked_out.items():
                found[name].append(of_batch(*jax.tree.map(lambda leaf: leaf[0], (one, played)), key_learn))
        for line in told({name: tuple(map(jnp.stack, zip(*both, strict=True))) for name, both in found.items()}):
            print(f"seed {seed}: {line}", flush=True)


def told(found: dict[str, tuple[Float[Array, "batches 1"], Float[Array, "batches parameters"]]]) -> Iterator[str]:
    """How far apart they are."""
    loss, gradient = found.pop("float32")
    yield ", ".join(f"loss in {name} {span(apart(other, loss))}" for name, (other, _) in found.items())
    parts = [f"gradient in {name} {span(apart(other, gradient))}" for name, (_, other) in found.items()]
    yield ", ".join([*parts, f"of another batch {span(apart(jnp.roll(gradient, 1, axis=0), gradient))}"])


def loss_and_gradient(built: Loop, precision: str) -> Callable[[Model, Trajectory, Array], Both]:
    """Of a batch, with products and rows of this precision."""

    def worked_out(model: Model, batch: Trajectory, key: Array) -> Both:
        learner, episodes = learn.learner(model, model, built.optimiser), rollout.recall(built.env, batch)
        gradient, said = learn.gradient(built.method, learner, episodes, key, config.ACTIVATIONS[precision])
        return said["loss"][None], gradient

    def at_this_precision(*arguments: object) -> Both:
        with jax.default_matmul_precision(config.PRODUCTS[precision]):
            return compiled(*arguments)

    emulated = precision == "tf32" and jax.default_backend() != "gpu"
    compiled = jax.jit(with_rounded_factors(worked_out) if emulated else worked_out)
    return at_this_precision


def with_rounded_factors(function: Callable[..., Both]) -> Callable[..., Both]:
    """The same function, with both factors of all its products as exact as TF32."""

    def rounded(*arguments: object) -> Both:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        return jax.tree.unflatten(jax.tree.structure(shapes), evaluate(traced, *jax.tree.leaves(arguments)))

    return rounded


def evaluate(traced: ClosedJaxpr, *given: Array) -> list[Array]:
    """What a program comes to."""
    program, values = traced.jaxpr, {}
    values.update(zip(program.constvars, traced.consts, strict=True))
    values.update(zip(program.invars, given, strict=True))

    def read(name: Any) -> Array:
        return name.val if isinstance(name, Literal) else values[name]

    for line in program.eqns:
        result = applied(line.primitive, line.params, [read(name) for name in line.invars])
        values.update(zip(line.outvars, result if line.primitive.multiple_results else [result], strict=True))
    return [read(name) for name in program.outvars]


def applied(primitive: Any, params: dict[str, Any], given: list[Array]) -> Any:
    """One line of a program. Loops and choices keep their form; what is called is done in place."""
    if primitive.name == "dot_general":
        return primitive.bind(*(jax.lax.reduce_precision(factor, *TF32) for factor in given), **params)
    bodies = {name: value for name, value in params.items() if is_body(value)}
    if not bodies:
        return primitive.bind(*given, **params)
    if primitive.name not in ("scan", "while", "cond"):
        return evaluate(*bodies.values(), *given)
    return primitive.bind(*given, **params | {name: rewritten(body) for name, body in bodies.items()})


def is_body(value: Any) -> bool:
    """Whether this is a program, or several."""
    return isinstance(value, ClosedJaxpr) or (isinstance(value, tuple) and bool(value) and all(map(is_body, value)))


def rewritten(body: Any) -> Any:
    """The same program, or programs, with rounded factors."""
    if isinstance(body, tuple):
        return tuple(map(rewritten, body))
    return jax.make_jaxpr(partial(evaluate, body))(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in body.in_avals))


def apart(one: Float[Array, "batches parameters"], other: Float[Array, "batches parameters"]) -> Float[Array, " batches"]:
    """Each gradient's distance from the other, as a share of the other's norm."""
    return jnp.linalg.norm(one - other, axis=1) / jnp.linalg.norm(other, axis=1)


def span(shares: Float[Array, " batches"]) -> str:
    """The least and the most."""
    return f"{shares.min():.2g} to {shares.max():.2g}"


if __name__ == "__main__":
    main()
