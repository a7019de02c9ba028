"""Independent Q-learning with Q(lambda) targets, a Polyak-averaged target network and Adam: an example of a loss."""

from dataclasses import dataclass
from functools import partial

import jax
import optax
from jaxtyping import Array, PRNGKeyArray

from refil.learning import td
from refil.learning.networks import UtilityOptions
from refil.methods.iql_attention import IqlModel, init
from refil.nn.utilities import unroll
from refil.settings import UnitFloat
from refil.training.replay.config import ReplayConfig
from refil.types import EpisodeBatch, Method, Spec


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of the method."""

    trace: UnitFloat = 0.8  # Lambda of the targets
    polyak: UnitFloat = 0.005  # Step of the target network toward the model, per update


def build(config: Config, spec: Spec) -> Method:
    """Return the method; the last two arguments are optional."""
    return Method(
        init=partial(init, config, spec),
        loss=partial(loss, config=config),
        optimizer=optimizer,
        target_update=partial(polyak_average, config.polyak),
    )


def loss(
    model: IqlModel, target_model: IqlModel, batch: EpisodeBatch, key: PRNGKeyArray, config: Config
) -> tuple[Array, dict[str, Array]]:
    """Return the loss and metrics of a batch; arrays are [batch, time, ...], and observations have one timestep more."""
    q = unroll(model.utility, batch)  # [batch, time + 1, agents, actions]
    next_q = td.double_q(q, unroll(target_model.utility, batch), batch)  # [batch, time, agents]
    td_targets = td.lambda_targets(batch, next_q, config.discount, config.trace)
    return td.loss(td.select_q(q, batch), td_targets, batch.valid_agents)


def optimizer(config: ReplayConfig) -> optax.GradientTransformation:
    """Return any optax optimizer; it sees parameters shaped like the model."""
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(config.lr))


def polyak_average(step: float, target: IqlModel, model: IqlModel, is_due: Array) -> IqlModel:
    """Move the target network toward the model after every update; `is_due` follows `--target-every` and is ignored."""
    return jax.tree.map(lambda old, new: (1 - step) * old + step * new, target, model)
