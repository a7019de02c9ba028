"""Measure how far rounding changes the gradient of a run's models, compared with how far another batch changes it.

    python benchmarks/precision.py RUN
    python benchmarks/precision.py RUN --batches 8

The run's models play batches of episodes, and are their own target networks. For each seed and batch, the loss and its gradient
are computed in float32, in TF32 (emulated without a GPU: both factors of every product are rounded to its ten bits) and in
bfloat16. The script prints the distance of each loss and gradient from that in float32, relative to float32; and the distance
between the float32 gradients of different batches.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from refil.nn.utilities import team_policy, team_state
from refil.rollout import rollout_random_tasks
from refil.storage import run_dir
from refil.training import flags
from refil.training.config import COMPUTE_DTYPES
from refil.training.replay import buffer, update
from refil.training.setup import Setup
from refil.types import Trajectory

EPISODES = 32  # per batch, as in the paper
TF32 = 8, 10  # bits of the exponent and of the fraction
LossAndGradient = tuple[Float[Array, " 1"], Float[Array, " parameters"]]  # of one batch
Stacked = tuple[Float[Array, "batches 1"], Float[Array, "batches parameters"]]


def main() -> None:
    """Measure, and print two lines for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--batches", type=int, default=3, help="batches per seed (default: 3)")
    args = parser.parse_args()
    run = run_dir.open_run(args.run)
    config = run.config
    config.configure()
    setup = config.build()
    models = jax.tree.map(jnp.asarray, run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0))))
    play_batch = jax.jit(partial(play, setup))
    functions = {precision: loss_and_gradient(setup, precision) for precision in flags.MATMUL_PRECISION}
    print(f"{config.method.name} on {config.env.name}, {args.batches} batches of {EPISODES} episodes")
    for row, seed in enumerate(run.seeds):
        model = jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], models)
        found: dict[str, list[LossAndGradient]] = {precision: [] for precision in functions}
        for play_key, loss_key in jax.random.split(jax.random.key(0), (args.batches, 2)):
            trajectories = play_batch(model, play_key[None])
            for precision, function in functions.items():
                found[precision].append(function(*jax.tree.map(lambda leaf: leaf[0], (model, trajectories)), loss_key))
        for line in report({precision: stack(batches) for precision, batches in found.items()}):
            print(f"seed {seed}: {line}", flush=True)


def play(setup: Setup, models: PyTree, keys: Key[Array, " seeds"]) -> Trajectory:
    """Play a batch of episodes with the final epsilon."""
    policy = team_policy(models, jnp.full(keys.shape, setup.algorithm.epsilon_finish))
    return rollout_random_tasks(setup.env, policy, team_state(models, EPISODES, setup.env.spec.agents), EPISODES, keys)


def stack(batches: list[LossAndGradient]) -> Stacked:
    """Stack the losses and the gradients of all batches."""
    losses, gradients = zip(*batches, strict=True)
    return jnp.stack(losses), jnp.stack(gradients)


def report(found: dict[str, Stacked]) -> Iterator[str]:
    """Iterate over lines that say how far losses and gradients are from those in float32."""
    loss, gradient = found.pop("float32")
    yield ", ".join(f"loss in {precision} {span(distances(other, loss))}" for precision, (other, _) in found.items())
    parts = [f"gradient in {precision} {span(distances(other, gradient))}" for precision, (_, other) in found.items()]
    yield ", ".join([*parts, f"of another batch {span(distances(jnp.roll(gradient, 1, axis=0), gradient))}"])


def loss_and_gradient(setup: Setup, precision: flags.Precision) -> Callable[..., LossAndGradient]:
    """Return the function of a model, a batch of trajectories and a key that computes in this precision."""
    setup = setup._replace(compute_dtype=COMPUTE_DTYPES[precision])

    def compute(model: PyTree, trajectories: Trajectory, key: PRNGKeyArray) -> LossAndGradient:
        learner, batch = update.init_learner(setup, model, model), buffer.rebuild_batch(setup.env, trajectories)
        gradient, metrics = update.gradient(setup, learner, batch, key)
        return metrics["loss"][None], ravel_pytree(gradient)[0]

    def compute_in_precision(*arguments: PyTree) -> LossAndGradient:
        with flags.computing(precision):
            return compiled(*arguments)

    emulate = precision == "tf32" and jax.default_backend() != "gpu"
    compiled = jax.jit(with_rounded_factors(compute) if emulate else compute)
    return compute_in_precision


def with_rounded_factors(function: Callable[..., LossAndGradient]) -> Callable[..., LossAndGradient]:
    """Return the function with both factors of all its products rounded to TF32."""

    def rounded(*arguments: PyTree) -> LossAndGradient:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        return jax.tree.unflatten(jax.tree.structure(shapes), run_program(program, *jax.tree.leaves(arguments)))

    return rounded


def run_program(closed: ClosedJaxpr, *inputs: Array) -> list[Array]:
    """Return the outputs of a program whose factors are rounded."""
    program, values = closed.jaxpr, {}
    values.update(zip(program.constvars, closed.consts, strict=True))
    values.update(zip(program.invars, inputs, strict=True))

    def read(variable: Any) -> Array:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in program.eqns:
        result = apply(equation.primitive, equation.params, [read(variable) for variable in equation.invars])
        values.update(zip(equation.outvars, result if equation.primitive.multiple_results else [result], strict=True))
    return [read(variable) for variable in program.outvars]


def apply(primitive: Any, params: dict[str, Any], inputs: list[Array]) -> Any:
    """Apply one operation of a program: loops and branches are kept, and called programs are inlined."""
    if primitive.name == "dot_general":
        return primitive.bind(*(jax.lax.reduce_precision(factor, *TF32) for factor in inputs), **params)
    bodies = {name: value for name, value in params.items() if is_body(value)}
    if not bodies:
        return primitive.bind(*inputs, **params)
    if primitive.name not in ("scan", "while", "cond"):
        return run_program(*bodies.values(), *inputs)
    return primitive.bind(*inputs, **params | {name: round_factors(body) for name, body in bodies.items()})


def is_body(value: Any) -> bool:
    """Return whether a parameter of an operation is a program, or several."""
    return isinstance(value, ClosedJaxpr) or (isinstance(value, tuple) and bool(value) and all(map(is_body, value)))


def round_factors(body: Any) -> Any:
    """Return the same program, or programs, with rounded factors."""
    if isinstance(body, tuple):
        return tuple(map(round_factors, body))
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in body.in_avals]
    return jax.make_jaxpr(partial(run_program, body))(*shapes)


def distances(ours: Float[Array, "batches size"], reference: Float[Array, "batches size"]) -> Float[Array, " batches"]:
    """Return the distance of each vector from its reference, relative to the norm of the reference."""
    return jnp.linalg.norm(ours - reference, axis=1) / jnp.linalg.norm(reference, axis=1)


def span(values: Float[Array, " batches"]) -> str:
    """Format the smallest and the largest value."""
    return f"{values.min():.2g} to {values.max():.2g}"


if __name__ == "__main__":
    main()
