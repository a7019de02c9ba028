"""UPDeT's memory token over whole episodes, with a hand-written gradient.

Only the memory token connects timesteps. Therefore only what it needs is computed timestep by timestep: all blocks, the last of
them for the memory token alone. Everything else is computed for all timesteps at once, with large products. The backward scan
likewise accumulates nothing but the memory token's total gradient, from which one gradient over all timesteps follows.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from refil.nn.block import Block
from refil.nn.gru import scan_time
from refil.nn.kernels import updet as kernel
from refil.nn.layers import Linear


class Inputs(eqx.Module):
    """Inputs of the transformer at one timestep or at all; tokens are the same for all views."""

    tokens: Float[Array, "one *batch agents entities size"]
    view: Bool[Array, "views *batch agents entities"]
    agent_present: Bool[Array, "one *batch agents"]

    def visible(self) -> Bool[Array, "views *batch agents tokens"]:
        """Return which tokens are attended to; the memory token always is."""
        return jnp.concatenate([self.view, jnp.ones_like(self.view[..., :1])], axis=-1)


class Layers(eqx.Module):
    """The layers that map one memory token to the next."""

    blocks: tuple[Block, ...]
    output: Linear

    def before_last(
        self, state: Float[Array, "views *batch agents size"], inputs: Inputs
    ) -> Float[Array, "views *batch agents tokens size"]:
        """Return the tokens that the last block reads, the memory token last."""
        entities = jnp.broadcast_to(inputs.tokens, (*inputs.view.shape, inputs.tokens.shape[-1]))
        tokens = jnp.concatenate([entities, state[..., None, :].astype(entities.dtype)], axis=-2)
        for block in self.blocks[:-1]:
            tokens = block(tokens, inputs.visible())
        return tokens

    def next_memory(
        self, tokens: Float[Array, "views *batch agents tokens size"], inputs: Inputs
    ) -> Float[Array, "views *batch agents size"]:
        """Return the memory token that the last block writes; that of an absent agent is zero."""
        memory = self.output(self.blocks[-1].last(tokens, inputs.visible()))
        return jnp.where(inputs.agent_present[..., None], memory.squeeze(-2), 0.0)


@jax.custom_vjp
def memory_scan(
    layers: Layers,
    inputs: Inputs,
    is_first: Bool[Array, "1 time rows 1 1"],
    start: Float[Array, "views rows agents size"] | None = None,
) -> Float[Array, "views time rows agents tokens size"]:
    """Return the tokens that the last block reads at every timestep, the memory token last.

    The memory token is zero before timesteps where `is_first` is true. `start` is the memory token before the first timestep
    (None: zero); it has no gradient.
    """
    return _memory_scan_fwd(layers, inputs, is_first, start)[0]


def _memory_scan_fwd(layers: Layers, inputs: Inputs, is_first: Array, start: Array | None) -> tuple[Array, tuple]:
    forward = kernel.forward if kernel.fits(layers, inputs) else memory_steps
    tokens, previous = forward(layers, inputs, is_first, start)
    return tokens, (layers, inputs, is_first, start, previous, tokens)


def _memory_scan_bwd(residuals: tuple, gradient: Array) -> tuple[Layers, Inputs, None, Array | None]:
    layers, inputs, is_first, start, previous, tokens = residuals
    backward = kernel.backward if kernel.fits(layers, inputs) else memory_scan_backward
    memory_grad = backward(layers, inputs, is_first, previous, gradient)
    _, last_block = jax.vjp(lambda layers, tokens: layers.next_memory(tokens, inputs), layers, tokens)
    by_last, tokens_grad = last_block(memory_grad)
    _, other_blocks = jax.vjp(lambda layers, inputs: layers.before_last(previous, inputs), layers, inputs)
    by_others, inputs_grad = other_blocks(gradient + tokens_grad)
    return jax.tree.map(jnp.add, by_last, by_others), inputs_grad, None, None if start is None else jnp.zeros_like(start)


memory_scan.defvjp(_memory_scan_fwd, _memory_scan_bwd)


def memory_steps(
    layers: Layers, inputs: Inputs, is_first: Array, start: Array | None = None
) -> tuple[Float[Array, "views time rows agents tokens size"], Float[Array, "views time rows agents size"]]:
    """Compute `memory_scan` without the GPU kernel; also return the memory token before each timestep, after resets."""

    def step(memory: Array, now: tuple[Inputs, Array]) -> tuple[Array, Array]:
        inputs, is_first = now
        memory = jnp.where(is_first, 0, memory)
        return layers.next_memory(layers.before_last(memory, inputs), inputs), memory

    views, _, *batch = inputs.view.shape[:-1]
    initial = jnp.zeros((views, *batch, inputs.tokens.shape[-1]), inputs.tokens.dtype)
    previous = scan_time(step, initial if start is None else start.astype(initial.dtype), (inputs, is_first))
    return layers.before_last(previous, inputs), previous


def memory_scan_backward(
    layers: Layers, inputs: Inputs, is_first: Array, previous: Array, gradient: Array
) -> Float[Array, "views time rows agents size"]:
    """Return the total gradient of every timestep's memory token, given that of the tokens that the last block reads."""

    def step(later: Array, now: tuple[Inputs, Array, Array, Array]) -> tuple[Array, Array]:
        inputs, is_first, previous, gradient = now

        def both(memory: Array) -> tuple[Array, Array]:
            tokens = layers.before_last(memory, inputs)
            return tokens, layers.next_memory(tokens, inputs)

        (before,) = jax.vjp(both, previous)[1]((gradient, later))
        return jnp.where(is_first, 0, before), jnp.where(inputs.agent_present[..., None], later, 0)

    return scan_time(step, jnp.zeros_like(previous[:, 0]), (inputs, is_first, previous, gradient), reverse=True)
