"""Properties of environments: finite numbers, padding, available actions, episode ends, and the same episode for a key."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from refil.checks import slots
from refil.checks.episodes import Subject
from refil.checks.report import Check, CheckFailed, NotApplicable, largest_difference
from refil.scene import Scene
from refil.training.devices import jit_quickly


def all_checks(subject: Subject) -> list[Check]:
    """Return all checks of an environment."""
    named = {
        "determinism": tracing_is_deterministic,
        "episodes repeat": the_same_key_gives_the_same_episode,
        "finite numbers": numbers_are_finite,
        "available actions": every_agent_has_an_action,
        "padding": absent_entities_are_padding,
        "presence": presence_is_constant,
        "absent agents": absent_agents_have_no_effect,
        "invisible targets": targets_are_visible,
        "episode ends": episodes_end,
        "permuted slots": slots.observations_follow_the_slots,
        "names": names_match_the_spec,
        "drawing": states_can_be_drawn,
    }
    return [Check(name, lambda check=check: check(subject)) for name, check in named.items()]


def tracing_is_deterministic(subject: Subject) -> str:
    """Two traces of each function give the same program: nothing random comes from outside the key."""
    env = subject.env
    task = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], env.tasks)
    state = jax.eval_shape(env.reset, task, jax.random.key(0))
    actions = jnp.zeros(env.spec.agents, jnp.int32)
    calls = {"reset": (task, jax.random.key(0)), "step": (state, actions, jax.random.key(0)), "observe": (state,)}
    for name, given in calls.items():
        one, other = (jax.make_jaxpr(lambda *given, name=name: getattr(env, name)(*given))(*given) for _ in range(2))
        if str(one.jaxpr) != str(other.jaxpr) or largest_difference(one.consts, other.consts) > 0:
            raise CheckFailed(
                f"{name}() differs from call to call; take random numbers from the key and keep no state in Python"
            )
    return "reset(), step() and observe() are pure functions"


def the_same_key_gives_the_same_episode(subject: Subject) -> str:
    """Playing with the same key twice gives the same bits."""
    played, again = subject.episodes[0], subject.play()[0]
    if (found := largest_difference(played, again)) > 0:
        raise CheckFailed(f"episodes with the same key differ by up to {found:.3g}")
    return f"{subject.num_episodes} episodes twice"


def numbers_are_finite(subject: Subject) -> str:
    """Features and rewards are finite."""
    obs, rewards = subject.obs, subject.episodes[0].rewards
    bad = ~np.isfinite(obs.entities)
    if bad.any():
        feature = int(np.argwhere(bad)[0][-1])
        raise CheckFailed(f"feature {feature} is {obs.entities[bad][0]} in {bad.any(axis=(1, 2)).mean():.1%} of timesteps")
    if not np.isfinite(rewards).all():
        raise CheckFailed(f"the reward is {rewards[~np.isfinite(rewards)][0]} in {(~np.isfinite(rewards)).sum()} steps")
    features = f"features from {obs.entities.min():.3g} to {obs.entities.max():.3g}"
    return f"rewards from {rewards.min():.3g} to {rewards.max():.3g}, {features}"


def every_agent_has_an_action(subject: Subject) -> str:
    """Every agent, present or not, always has an available action."""
    without = ~subject.obs.available.any(axis=-1)
    if without.any():
        timestep, agent = np.argwhere(without)[0]
        state = "present" if subject.obs.present[timestep, agent] else "absent"
        raise CheckFailed(f"agent {agent} ({state}) has no available action in {without.any(axis=-1).mean():.1%} of timesteps")
    return f"{subject.obs.available.sum(axis=-1).mean():.1f} per agent on average"


def absent_entities_are_padding(subject: Subject) -> str:
    """Absent entities have features of zero, are neither visible nor alive, and see nothing."""
    obs = subject.obs
    absent = ~obs.present
    full_view = obs.present[:, : subject.env.spec.agents, None] & obs.present[:, None, :]
    if not absent.any():
        raise NotApplicable("all entities are always present")
    if (obs.entities[absent] != 0).any():
        raise CheckFailed(f"absent entities have features up to {np.abs(obs.entities[absent]).max():.3g}; they must be zero")
    if (obs.visible & ~full_view).any():
        raise CheckFailed(
            f"{(obs.visible & ~full_view).sum()} times an absent entity is visible or an absent agent sees something"
        )
    if obs.alive is not None and (obs.alive & absent).any():
        raise CheckFailed(f"{(obs.alive & absent).sum()} times an absent entity is alive")
    return f"{absent.mean():.0%} of slots are absent"


def presence_is_constant(subject: Subject) -> str:
    """Presence does not change within an episode."""
    trajectories, obs = subject.episodes
    reached = np.pad(trajectories.valid, [(0, 0), (1, 0)], constant_values=True)
    changed = (obs.present != obs.present[:, :1]).any(axis=-1) & reached
    if changed.any():
        raise CheckFailed(
            f"presence changes in {changed.any(axis=1).sum()} episodes; an entity that dies stays present, not alive"
        )
    return "presence never changes within an episode"


def absent_agents_have_no_effect(subject: Subject) -> str:
    """Actions of absent agents change neither the reward nor what is observed."""
    env, states = subject.env, subject.sampled_states()

    def outcomes(states: PyTree, actions: Array, keys: Array) -> PyTree:
        after, outcome = jax.vmap(env.step)(states, actions, keys)
        return outcome, jax.vmap(env.observe)(after)

    obs = jit_quickly(jax.vmap(env.observe))(states)
    present = np.asarray(obs.present[:, : env.spec.agents])
    if present.all():
        raise NotApplicable("all agents are always present")
    actions = np.argmax(np.asarray(obs.available), axis=-1)
    others = np.where(present, actions, (actions + 1) % env.spec.actions)
    keys, program = jax.random.split(jax.random.key(subject.seed), len(actions)), jit_quickly(outcomes)
    one, other = (jax.device_get(program(states, jnp.asarray(each), keys)) for each in (actions, others))
    if (found := largest_difference(one[0], other[0])) > 0:
        raise CheckFailed(f"actions of absent agents change rewards or ends by up to {found:.3g}")
    if (found := largest_difference(one[1], other[1])) > 0:
        raise CheckFailed(f"actions of absent agents change observations by up to {found:.3g}")
    return f"{(~present).sum()} absent agents in {len(present)} states"


def targets_are_visible(subject: Subject) -> str:
    """An action aimed at an entity is available only to agents that see it."""
    obs = subject.obs
    if obs.targeting_action is None or not subject.env.spec.target_actions:
        raise NotApplicable("no action is aimed at an entity")
    aimed = np.asarray(obs.targeting_action)[:, None, :]
    actions = np.maximum(aimed, 0).repeat(subject.env.spec.agents, 1)
    can_target = np.take_along_axis(np.asarray(obs.available), actions, axis=-1) & (aimed >= 0)
    if (hidden := can_target & ~obs.visible).any():
        raise CheckFailed(
            f"{hidden.sum()} of {can_target.sum()} available targets are not visible to the agent that may choose them"
        )
    return f"{can_target.sum()} available targets"


def episodes_end(subject: Subject) -> str:
    """Some episodes last longer than one step, and only terminated ones are won."""
    trajectories = subject.episodes[0]
    terminated, lengths = trajectories.terminated.any(axis=-1), trajectories.valid.sum(axis=-1)
    if (trajectories.won & ~terminated).any():
        raise CheckFailed(f"{(trajectories.won & ~terminated).sum()} episodes are won without being terminated")
    if (lengths == 1).all() and subject.env.spec.horizon > 1:
        raise CheckFailed(f"all {len(lengths)} episodes end with their first step")
    ends = f"{terminated.sum()} of {len(lengths)} terminate, {trajectories.won.sum()} are won"
    return f"{ends}; {lengths.mean():.1f} of at most {subject.env.spec.horizon} steps on average"


def names_match_the_spec(subject: Subject) -> str:
    """There is a name for every feature and every action."""
    given = {name: getattr(subject.env, name, ()) for name in ("feature_names", "action_names")}
    if missing := [name for name, names in given.items() if not names]:
        raise NotApplicable(f"the environment has no {' and no '.join(missing)}")
    for (name, names), size in zip(given.items(), (subject.env.spec.features, subject.env.spec.actions), strict=True):
        if len(names) != size or len(set(names)) != size:
            what = name.partition("_")[0]
            raise CheckFailed(f"{name} has {len(set(names))} different names for {size} {what}s; each {what} needs its own")
    return f"{subject.env.spec.features} features and {subject.env.spec.actions} actions"


def states_can_be_drawn(subject: Subject) -> str:
    """`scene` draws a state."""
    if not hasattr(subject.env, "scene"):
        raise NotApplicable("the environment has no scene(state)")
    state = jax.tree.map(lambda leaf: np.asarray(leaf[0]), subject.sampled_states())
    scene = subject.env.scene(state)  # type: ignore[attr-defined] (an optional attribute)
    if not isinstance(scene, Scene):
        raise CheckFailed(f"scene() returned {type(scene).__name__} instead of refil.scene.Scene")
    return f"{len(scene.circles)} circles and {len(scene.lines)} lines"
