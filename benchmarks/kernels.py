"""Compare what compiles the GPU kernels: Triton, Pallas' deprecated Triton backend in JAX, and XLA, which has no kernels.

    python benchmarks/kernels.py
    python benchmarks/kernels.py --kernels gru battles --compilers Triton XLA --precision float32

Every row is a layer or a step of battles with its gradient where it has one, at the sizes of an update of REFIL on 3-8sz (32
episodes, packed) or of QMIX (UPDeT). Prints milliseconds per call, the largest difference to XLA relative to the largest value,
and seconds of compilation. A compiler that is not installed is left out.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from refil import hardware, plugins
from refil.envs.starcraft.env import run_ticks
from refil.nn import attention, gru, layer_norm, memory_token
from refil.nn.transformer import updet_utility
from refil.training import flags

COMPILERS = ("Pallas", "Triton", "XLA")
VIEWS, TIMESTEPS, AGENTS, ENTITIES, SIZE = 3, 2432, 8, 16, 128  # of a packed batch
ROWS, TIME, HIDDEN = 160, 151, 64  # of the recurrent network: episodes one after another, in rows of equal length


def normal(seed: int, *shape: int, dtype: Any = jnp.float32) -> jax.Array:
    """Return random numbers."""
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the results of a function together with the gradients of its floating-point arguments."""

    def both(gradient: Any, *arguments: Any) -> Any:
        results, pullback = jax.vjp(function, *arguments)
        return results, [leaf for leaf in jax.tree.leaves(pullback(gradient)) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    return both


def gru_case(dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the recurrent network of all views."""
    weight, biases = normal(0, HIDDEN, 3 * HIDDEN) / 8, normal(1, 2, 3 * HIDDEN)
    gates, gradient = normal(2, VIEWS, TIME, ROWS, 3 * HIDDEN, dtype=dtype), normal(3, VIEWS, TIME, ROWS, HIDDEN, dtype=dtype)
    is_first = jax.random.bernoulli(jax.random.key(4), 0.02, (VIEWS, TIME, ROWS, 1)).at[:, 0].set(True)
    scan = with_gradient(lambda weight, biases, gates: gru.gru_scan(weight, biases, gates, is_first))
    return scan, (gradient, weight, biases, gates)


def attention_case(value_dim: int, dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return attention through all views: values of 32 columns in the utility, of one in mixing networks with merged heads."""
    views = jax.random.bernoulli(jax.random.key(0), 0.6, (VIEWS, TIMESTEPS, AGENTS, ENTITIES))
    columns = 2 * SIZE + 4 * value_dim
    projections = normal(1, TIMESTEPS, ENTITIES, columns + -columns % 128, dtype=dtype)
    sum_heads = value_dim == 1
    gradient = normal(2, VIEWS, TIMESTEPS, AGENTS, value_dim * (1 if sum_heads else 4), dtype=dtype)
    return with_gradient(lambda given: attention.attend(given, views, SIZE, 4, value_dim, sum_heads)), (gradient, projections)


def layer_norm_case(dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return layer normalization of the on-policy networks."""
    inputs, gradient = (normal(seed, TIMESTEPS * ENTITIES, SIZE, dtype=dtype) for seed in (0, 1))
    normalize = with_gradient(lambda *given: layer_norm.normalize(*given, True))
    return normalize, (gradient, inputs, normal(2, SIZE), normal(3, SIZE))


def memory_token_case(dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the recurrence of UPDeT."""
    rows, size = 22, 32
    module = plugins.load("refil.envs", "3-8sz")
    utility = updet_utility(module.build(module.Config()).spec, size, 3, 2, False, jax.random.key(0))
    cast = partial(jax.tree.map, lambda leaf: leaf.astype(dtype) if leaf.dtype == jnp.float32 else leaf)
    layers = cast(memory_token.Layers(utility.blocks, utility.output))
    inputs = memory_token.Inputs(
        normal(1, 1, TIME, rows, AGENTS, ENTITIES, size, dtype=dtype),
        jax.random.bernoulli(jax.random.key(2), 0.6, (1, TIME, rows, AGENTS, ENTITIES)),
        jax.random.bernoulli(jax.random.key(3), 0.9, (1, TIME, rows, AGENTS)),
    )
    is_first = jax.random.bernoulli(jax.random.key(4), 0.02, (1, TIME, rows, 1, 1)).at[:, 0].set(True)
    gradient = normal(5, 1, TIME, rows, AGENTS, ENTITIES + 1, size, dtype=dtype)

    def scan(layers: Any, tokens: jax.Array) -> jax.Array:
        given = memory_token.Inputs(tokens, inputs.view, inputs.agent_present)
        return memory_token.memory_scan(layers, given, is_first)

    return with_gradient(scan), (gradient, layers, inputs.tokens)


def battles_case(battles: int, dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the ticks of a step of battles, after some steps with random actions; they are computed in float32."""
    module = plugins.load("refil.envs", "3-8sz")
    env = module.build(module.Config())

    def step(state: Any, key: jax.Array) -> Any:
        available = env.observe(state).available
        return env.step(state, jax.random.categorical(key, jnp.where(available, 0.0, -jnp.inf)), key)[0]

    @jax.jit
    def begin(keys: jax.Array) -> Any:
        tasks = jnp.asarray(env.tasks)[jnp.arange(battles) % len(env.tasks)]
        state = jax.vmap(env.reset)(tasks, keys)
        return jax.lax.fori_loop(0, 12, lambda _, now: jax.vmap(step)(now, keys), state)

    keys = jax.random.split(jax.random.key(0), battles)
    return jax.vmap(run_ticks(env.game)), (begin(keys), jax.vmap(env.cooldown_jitter)(keys))


CASES: dict[str, Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "gru": gru_case,
    "attention": partial(attention_case, 32),
    "merged attention": partial(attention_case, 1),
    "layer norm": layer_norm_case,
    "battles": partial(battles_case, 128),
    "many battles": partial(battles_case, 2048),
    "memory token": memory_token_case,
}


def measure(function: Callable[..., Any], arguments: tuple[Any, ...], repeats: int) -> tuple[Any, float, float]:
    """Return the results of a function, milliseconds per call, and seconds of compilation."""
    jax.clear_caches()  # traces of another compiler
    started = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    results = jax.block_until_ready(compiled(*arguments))
    compilation = time.perf_counter() - started
    timings = []
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(20):
            after = compiled(*arguments)
        jax.block_until_ready(after)
        timings.append((time.perf_counter() - started) / 20 * 1e3)
    return results, statistics.median(timings), compilation


def difference(results: Any, expected: Any) -> float:
    """Return the largest difference of numbers, relative to the largest number of each array."""
    pairs = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    arrays = [(np.asarray(one, np.float64), np.asarray(other, np.float64)) for one, other in pairs]
    return max(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)) for one, other in arrays)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", choices=CASES, default=list(CASES), help="which to measure (default: all)")
    parser.add_argument("--compilers", nargs="*", choices=COMPILERS, default=list(COMPILERS), help="default: all")
    parser.add_argument("--precision", choices=("bf16", "float32"), default="bf16", help="default: bf16")
    parser.add_argument("--repeats", type=int, default=9, help="rounds of 20 calls; the median is printed (default: 9)")
    args = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", flags.MATMUL_PRECISION[args.precision])
    installed = [name for name in args.compilers if name == "XLA" or name in hardware.compilers()]
    print(f"{'kernel':<18}{'compiler':<12}{'ms':>9}{'difference':>12}{'compile s':>11}")
    for case in args.kernels:
        with hardware.using_kernels("off"):
            function, arguments = CASES[case](flags.compute_dtype(args.precision))
            expected, *plain = measure(function, arguments, args.repeats if "XLA" in installed else 1)
        for name in installed:
            if name == "XLA":
                row = (plain[0], 0.0, plain[1])
            else:
                hardware.compiler = lambda name=name: name
                with hardware.using_kernels("on"):
                    results, milliseconds, seconds = measure(function, arguments, args.repeats)
                row = (milliseconds, difference(results, expected), seconds)
            print(f"{case:<18}{name:<12}{row[0]:>9.3f}{row[1]:>12.1e}{row[2]:>11.1f}", flush=True)


if __name__ == "__main__":
    main()
