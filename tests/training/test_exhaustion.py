"""Lack of memory."""

import jax
import jax.numpy as jnp
import pytest
from jax.errors import JaxRuntimeError

from refil.errors import RefilError
from refil.training import devices, evaluation, exhaustion
from tests.tiny_runs import small


def test_a_program_that_needs_more_memory_than_there_is_is_refused_before_it_runs(monkeypatch):
    """The working set of ten million small episodes is much larger than their states and observations."""
    setup, episodes = small().build(), 10**7
    keys = jax.random.split(jax.random.key(0), 1)
    models = jax.vmap(setup.method.init)(keys)
    monkeypatch.setattr(devices, "memory_bytes", lambda: 4 * 10**9)
    with pytest.raises(RefilError, match=r"the compiled program needs .* GB of memory where 4.0 GB are .*; reduce --episodes"):
        devices.run(
            setup.env,
            lambda models, keys: evaluation.evaluate(setup.env, models, episodes, keys),
            *(models, keys),
            option="--episodes",
        )
    with pytest.raises(RefilError, match=r"the compiled program needs .*; reduce episodes"):
        evaluation.evaluate_by_task(setup.env, models, episodes, keys)


def test_a_program_that_fits_and_one_that_is_not_compiled_are_accepted():
    compiled = jax.jit(lambda x: x + 1).lower(jnp.zeros(3)).compile()
    exhaustion.check_program(compiled, 10**6, "episodes")
    exhaustion.check_program(devices.Uncompiled(len), 0, "episodes")


@pytest.mark.parametrize(
    "error", [JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes"), MemoryError()], ids=repr
)
def test_a_lack_of_memory_is_one_sentence_with_the_option(error):
    with pytest.raises(RefilError, match="there is not enough memory; reduce --episodes"), exhaustion.explained("--episodes"):
        raise error


def test_other_errors_of_xla_stay_as_they_are():
    with pytest.raises(JaxRuntimeError, match="INTERNAL"), exhaustion.explained("--episodes"):
        raise JaxRuntimeError("INTERNAL: a bug")
