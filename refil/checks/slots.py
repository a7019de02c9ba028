"""Slots of environments: what the state holds about an entity must be observed in the slot of that entity."""

from itertools import combinations
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from refil.checks import batches
from refil.checks.episodes import Subject
from refil.checks.report import CheckFailed, NotApplicable, largest_difference
from refil.training.devices import jit_quickly
from refil.types import Observation

TOLERANCE = 1e-5
MAX_AGENTS = 5  # each pair of these is exchanged


def observations_follow_the_slots(subject: Subject) -> str:
    """Permuting the slots of the state permutes the observation; environments with numbered slots are exempt."""
    spec, states = subject.env.spec, subject.sampled_states()
    agents, entities = batches.random_order(spec, subject.seed + 1)
    if not any(leaf.shape[1:2] and leaf.shape[1] in (spec.agents, spec.entities) for leaf in jax.tree.leaves(states)):
        raise NotApplicable("no array of the state has an axis of entities")
    program = jit_quickly(lambda agents, entities: _observe(subject, states, agents, entities))
    original = program(np.arange(spec.agents), np.arange(spec.entities))
    numbered = _first_difference(program(agents, entities), batches.permuted(original, agents, entities))
    if numbered is None:
        return "observations follow the order of the entities"
    if _agents_can_be_exchanged(subject, original, program):
        return "observations follow the order of the agents that are present"
    raise NotApplicable(f"{numbered} depends on the number of the slot, as a one-hot number of the agent does")


def _observe(subject: Subject, states: PyTree, agents: Array, entities: Array) -> Observation:
    """Observe states whose slots are in another order."""
    orders = {subject.env.spec.agents: agents} | {subject.env.spec.entities: entities}

    def reorder(leaf: Array) -> Array:
        return leaf[:, orders[leaf.shape[1]]] if leaf.ndim > 1 and leaf.shape[1] in orders else leaf

    return jax.vmap(subject.env.observe)(jax.tree.map(reorder, states))


def _first_difference(one: Observation, other: Observation) -> str | None:
    for (path, leaf), expected in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if largest_difference(leaf, expected) > TOLERANCE:
            return jax.tree_util.keystr(path)[1:]
    return None


def _agents_can_be_exchanged(subject: Subject, original: Observation, program: Any) -> bool:
    """Return whether exchanging two agents exchanges what is observed; raise if other slots show them than their own.

    Only agents that are present are exchanged. Environments may number their slots, or compare everyone with one of them. But
    what is known of two agents cannot appear, state after state, in the slots of others while their own do not change.
    """
    spec, is_same, shown = subject.env.spec, True, {}
    for pair in combinations(range(min(spec.agents, MAX_AGENTS)), 2):
        chosen = np.flatnonzero(np.asarray(original.present)[:, pair].all(axis=1))
        entities = np.arange(spec.entities)
        entities[list(pair)] = entities[list(pair)[::-1]]
        agents = entities[: spec.agents]
        found = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], program(agents, entities))
        before = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], original)
        is_same &= _first_difference(found, batches.permuted(before, agents, entities)) is None
        for field in ("entities", "available"):
            differs = np.abs(np.subtract(*(np.asarray(getattr(obs, field), float) for obs in (found, before)))) > TOLERANCE
            shown[field, pair] = set(np.flatnonzero(differs.any(axis=(0, 2))).tolist())
    for field in ("entities", "available"):
        _check_shown(spec.agents, field, {pair: rows for (name, pair), rows in shown.items() if name == field and rows})
    return is_same


def _check_shown(agents: int, field: str, shown: dict[tuple[int, int], set[int]]) -> None:
    elsewhere = all(len(rows) <= 2 and not rows >= set(pair) for pair, rows in shown.items())
    for pair, rows in shown.items():
        if elsewhere and min(rows) < agents:
            slots = f"slot{'s' * (len(rows) > 1)} {' and '.join(map(str, sorted(rows)))}"
            raise CheckFailed(
                f"observe() shows agents in other slots than their own: exchanging agents {pair[0]} and {pair[1]} in the state "
                f"changes {field} of {slots}"
            )
