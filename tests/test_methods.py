"""What every method promises, for whatever methods there are; sizes, masks and partitions are random."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.errors import RefilError
from refil.learning import partitions
from refil.training import config as experiment
from refil.training.replay import learner as learn
from refil.types import Episode, Method, Model, Observation, Spec, without_dead

METHODS = plugins.names("refil.methods")
EPISODES, TIME = 3, 4
SPECS = [Spec(2, 2, 3, 2, TIME), Spec(3, 5, 4, 5, TIME, aimed=3)]
seeds = st.integers(0, 10_000)
KINDS = ["feed-forward, linear", "recurrent, attention"]
# Both kinds where the paper uses both: StarCraft's baselines are recurrent with attention in the mixer.
BOTH = ["refil", "qmix_attention", "refil_vdn", "vdn_attention", "refil_fixed_oracle", "refil_randomized_oracle"]
CASES = [(name, kind) for name in METHODS for kind in KINDS if name in BOTH or kind == KINDS[1]]
every_method = pytest.mark.parametrize("name", METHODS)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_case = pytest.mark.parametrize(("name", "kind"), CASES)
few = settings(max_examples=12, deadline=None)


def sizes(name: str) -> list[int]:
    """Numbers of entities to try a method with."""
    return [2, 5] if name in BOTH else [5]


@cache
def built(name: str, kind: str, entities: int, **changes) -> tuple[Method, Spec]:
    """A method at a small size."""
    spec = next(spec for spec in SPECS if spec.entities == entities)
    return small(name, kind, spec, **changes), spec


@cache
def small(name: str, kind: str, spec: Spec, **changes) -> Method:
    """A method with few numbers, for worlds of any size."""
    config = plugins.load("refil.methods", name).Config()
    recurrent = kind.startswith("recurrent")
    options = {"size": 8, "memory": 4, "heads": 2, "recurrent": recurrent, "last_action": recurrent}
    options |= {"mixer": "attention" if recurrent else "linear", "mixing": 4}
    options |= {"token": 8, "token_heads": 2, "joint": 8, "mixing_heads": 2, "role_layer": 4, "sample_roles": False}
    options = {option: value for option, value in options.items() if hasattr(config, option)}
    return plugins.load("refil.methods", name).build(replace(config, **(options | changes)), spec)


@cache
def jitted_loss(method: Method):
    return jax.jit(jax.value_and_grad(lambda model, *rest: method.loss(model, *rest)[0]))


@cache
def jitted_q(method: Method):
    return jax.jit(lambda model, obs: model.utility.unroll(obs, obs.visible[None], jax.random.key(0))[0][0])


@cache
def jitted_value(method: Method):
    return jax.jit(
        lambda model, obs, utilities, views: model.mixer.values(model.mixer.read(obs, views), utilities, [slice(None)])[0]
    )


def random_episodes(spec: Spec, seed: int) -> Episode:
    """Episodes of random length, presence, sight, actions and rewards."""
    draw = np.random.default_rng(seed)
    agents, instants = spec.agents, TIME + 1
    present = np.repeat(draw.random((EPISODES, 1, spec.entities)) < 0.8, instants, axis=1)
    present[:, :, 0] = True
    visible = (draw.random((EPISODES, instants, agents, spec.entities)) < 0.7) | np.eye(agents, spec.entities, dtype=bool)
    visible &= present[:, :, :agents, None] & present[:, :, None, :]
    available = draw.random((EPISODES, instants, agents, spec.actions)) < 0.7
    available[..., 0] |= ~available.any(axis=-1)
    actions = draw.integers(0, spec.actions, (EPISODES, TIME, agents))
    length = draw.integers(1, TIME + 1, EPISODES)
    time = np.arange(TIME)
    observations = Observation(
        entities=as_floats(draw.normal(size=(EPISODES, instants, spec.entities, spec.features)) * present[..., None]),
        present=jnp.asarray(present),
        alive=jnp.asarray(present),
        visible=jnp.asarray(visible),
        available=jnp.asarray(available),
        group=jnp.asarray(np.repeat(draw.integers(0, 2, (EPISODES, 1, spec.entities)), instants, axis=1)),
        targeting_action=aims(spec, present, draw),
        last_action=jnp.asarray(np.concatenate([np.full_like(actions[:, :1], -1), actions], axis=1)),
    )
    return Episode(
        observations=observations,
        number=jnp.repeat(jnp.arange(EPISODES)[:, None], instants, axis=1),
        actions=jnp.asarray(actions),
        rewards=as_floats(draw.normal(size=(EPISODES, TIME))),
        terminated=jnp.asarray((time == length[:, None] - 1) & (draw.random((EPISODES, 1)) < 0.7)),
        valid=jnp.asarray(time < length[:, None]),
        count=EPISODES,
    )


def aims(spec: Spec, present: np.ndarray, draw: np.random.Generator) -> jax.Array:
    """Which action is aimed at each entity: some at nobody, the others at one each."""
    choices = [*range(spec.actions - spec.aimed, spec.actions), *[-1] * (spec.entities - spec.aimed)]
    rows = np.stack([draw.permutation(choices)[: spec.entities] for _ in range(EPISODES)])[:, None]
    return jnp.asarray(np.where(present, np.broadcast_to(rows, present.shape), -1))


def as_floats(values: np.ndarray) -> jax.Array:
    return jnp.asarray(values, jnp.float32)


def two_models(method: Method, seed: int) -> tuple[Model, Model]:
    """Two of a few fresh models: hypothesis varies what they see, which is what matters."""
    return few_models(method, seed % 3)


@cache
def few_models(method: Method, seed: int) -> tuple[Model, Model]:
    return tuple(jax.jit(method.init)(key) for key in jax.random.split(jax.random.key(seed)))


def assert_trees_close(ours, theirs, tolerance=2e-5):
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=tolerance, rtol=1e-4), ours, theirs)


def permuted(obs: Observation, agents: np.ndarray, entities: np.ndarray) -> Observation:
    """The same instant with its rows in another order; agents stay in front."""
    return Observation(
        entities=obs.entities[..., entities, :],
        present=obs.present[..., entities],
        alive=obs.alive[..., entities],
        visible=obs.visible[..., agents, :][..., entities],
        available=obs.available[..., agents, :],
        group=obs.group[..., entities],
        targeting_action=obs.targeting_action[..., entities],
        last_action=obs.last_action[..., agents],
    )


def random_order(spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of agents, and of all entities."""
    draw = np.random.default_rng(seed)
    agents = draw.permutation(spec.agents)
    return agents, np.concatenate([agents, spec.agents + draw.permutation(spec.entities - spec.agents)])


@every_case
@few
@given(seed=seeds, size=st.integers(0, 1))
def test_permuting_entities_permutes_utilities_and_leaves_the_joint_value(name, kind, seed, size):
    method, spec = built(name, kind, sizes(name)[size % len(sizes(name))])
    model, obs = two_models(method, seed)[0], random_episodes(spec, seed).observations
    agents, order = random_order(spec, seed)
    other = permuted(obs, agents, order)
    q = jitted_q(method)(model, obs)
    np.testing.assert_allclose(jitted_q(method)(model, other), q[:, :, agents], atol=1e-5)
    utilities = q.max(axis=-1)[None]
    value = jitted_value(method)(model, obs, utilities, obs.full_view[None])
    same = jitted_value(method)(model, other, utilities[..., agents], other.full_view[None])
    np.testing.assert_allclose(same, value, atol=1e-5)


# Whom the others imagine together is drawn slot by slot.
WITHOUT_CHANCE = [case for case in CASES if not hasattr(plugins.load("refil.methods", case[0]).Config, "imagined_weight")]


@pytest.mark.parametrize(("name", "kind"), WITHOUT_CHANCE)
@few
@given(seed=seeds)
def test_permuting_entities_leaves_the_loss(name, kind, seed):
    method, spec = built(name, kind, 5)
    episodes, (agents, order) = random_episodes(spec, seed), random_order(spec, seed)
    other = replace(
        episodes, observations=permuted(episodes.observations, agents, order), actions=episodes.actions[..., agents]
    )
    # Values, not gradients: ROMA divides by how far roles are apart, and fresh ones are so much alike that rounding shows.
    loss, same = (jitted_loss(method)(*two_models(method, seed), each, jax.random.key(seed))[0] for each in (episodes, other))
    np.testing.assert_allclose(same, loss, atol=2e-5)


@few
@given(seed=seeds)
def test_permuting_entities_leaves_qtrans_joint_value_and_state_value(seed):
    method, spec = built("qtran", KINDS[1], 5)
    mixer, episodes = two_models(method, seed)[0].mixer, random_episodes(spec, seed)
    obs, (agents, order) = episodes.observations, random_order(spec, seed)
    draw = np.random.default_rng(seed)
    hidden = as_floats(draw.normal(size=(*obs.agent_present.shape, 4)))
    actions = jnp.asarray(draw.integers(0, spec.actions, obs.agent_present.shape))
    value = jitted_qtran(mixer, obs, hidden, actions)
    same = jitted_qtran(mixer, permuted(obs, agents, order), hidden[..., agents, :], actions[..., agents])
    assert_trees_close(same, value, 1e-5)
    assert not np.allclose(*value, atol=1e-3)  # two values, not one twice


@jax.jit
def jitted_qtran(mixer, obs, hidden, actions):
    return mixer.joint_value(obs, hidden, actions), mixer.state_value(obs)


@every_case
@few
@given(seed=seeds, size=st.integers(0, 1))
def test_garbage_in_absent_slots_and_after_the_end_changes_nothing(name, kind, seed, size):
    method, spec = built(name, kind, sizes(name)[size % len(sizes(name))])
    model, target = two_models(method, seed)
    episodes = random_episodes(spec, seed)
    obs, draw = episodes.observations, np.random.default_rng(seed)
    over = np.concatenate([np.zeros((EPISODES, 1), bool), ~np.asarray(episodes.valid)], axis=1)  # after the last instant
    garbage = jnp.asarray(draw.normal(size=obs.entities.shape) * 100, jnp.float32)
    spoilt = replace(obs, entities=jnp.where(~obs.present[..., None] | over[..., None, None], garbage, obs.entities))
    after = ~episodes.valid
    worse = replace(
        episodes,
        observations=replace(spoilt, visible=obs.visible & ~over[..., None, None]),
        actions=jnp.where(after[..., None], 0, episodes.actions),
        rewards=jnp.where(after, -1e7, episodes.rewards),
        terminated=episodes.terminated | after,
    )
    key = jax.random.key(seed)
    assert_trees_close(jitted_loss(method)(model, target, worse, key), jitted_loss(method)(model, target, episodes, key))


@every_case
@few
@given(seed=seeds)
def test_an_invisible_entity_cannot_change_an_agents_utility(name, kind, seed):
    if getattr(plugins.load("refil.methods", name), "COMMUNICATES", False):
        pytest.skip("its agents tell each other what they see")
    method, spec = built(name, kind, 5)
    model, obs = two_models(method, seed)[0], random_episodes(spec, seed).observations
    entity = seed % spec.entities
    hidden = replace(obs, visible=obs.visible.at[:, :, 0, entity].set(entity == 0))
    changed = replace(hidden, entities=obs.entities.at[:, :, entity].add(5.0))
    q, other = jitted_q(method)(model, hidden), jitted_q(method)(model, changed)
    if entity != 0:
        np.testing.assert_array_equal(q[:, :, 0], other[:, :, 0])
    seen = np.asarray(hidden.visible[..., entity] & hidden.present[..., entity, None])
    if kind.startswith("feed") and seen.any():
        assert not np.allclose(q[seen], other[seen], atol=1e-9)


@every_case
@few
@given(seed=seeds)
def test_the_joint_value_never_falls_when_a_utility_rises(name, kind, seed):
    method, spec = built(name, kind, 5)
    model, obs = two_models(method, seed)[0], random_episodes(spec, seed).observations
    draw = np.random.default_rng(seed)
    side = jnp.asarray(draw.integers(0, 3, obs.present.shape))
    for views in (obs.full_view[None], partitions.views(side, obs.full_view)):
        utilities = jnp.asarray(draw.normal(size=views.shape[:-1]), jnp.float32)
        slope = jax.grad(lambda u, views=views: jitted_value(method)(model, obs, u, views).sum())(utilities)
        assert (np.asarray(slope) >= 0).all()
        assert (np.asarray(slope)[..., 0] > 0).all()  # the first agent is always there


@every_method
def test_every_method_can_learn_group_matching(name):
    """Its defaults there are feed-forward with a linear mixer; that everything fits together is seen without compiling."""
    loop = experiment.default("group_matching", name).build()
    model = jax.eval_shape(loop.method.init, jax.random.key(0))
    episodes = random_episodes(loop.env.spec, 0)
    gradient = jax.eval_shape(jax.grad(lambda *given: loop.method.loss(*given)[0]), model, model, episodes, jax.random.key(0))
    assert jax.tree.structure(gradient) == jax.tree.structure(model)


@every_method
def test_networks_that_work_in_bf16_come_to_about_the_same(name):
    """Rows have 8 bits then, so losses agree to some hundredths; what values come to is float32 all the same."""
    method, spec = built(name, KINDS[1], 5)
    given = (*two_models(method, 0), random_episodes(spec, 1))
    exact, gradient = jitted_loss(method)(*given, jax.random.key(1))
    rough, rough_gradient = jitted_loss(method)(*learn.working_in(jnp.bfloat16, *given), jax.random.key(1))
    assert rough.dtype == jnp.float32
    assert rough != exact
    np.testing.assert_allclose(rough, exact, rtol=0.05)
    norms = [
        float(optax.tree.norm(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), each))) for each in (rough_gradient, gradient)
    ]
    assert norms[0] == pytest.approx(norms[1], rel=0.1)


@every_method
def test_in_bf16_too_a_batch_repeated_has_the_same_gradient(name):
    """Sums over rows are made in float32: in bf16 one of many rows would come out too small."""
    method, spec = built(name, KINDS[1], 5)
    given = learn.working_in(jnp.bfloat16, *two_models(method, 0), random_episodes(spec, 1))
    many = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * 128), given[2])  # the same numbers, and so the same sides
    once, often = (jitted_loss(method)(*given[:2], episodes, jax.random.key(1))[1] for episodes in (given[2], many))
    for one, other in zip(*map(jax.tree.leaves, (once, often)), strict=True):
        one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
        assert np.linalg.norm(other - one) <= 0.03 * np.linalg.norm(one)


@every_case
@pytest.mark.parametrize("state", ["nobody sees anything", "one agent alone", "one action", "agents die", "the dead are gone"])
def test_gradients_are_finite_whatever_is_seen(name, kind, state):
    method, spec = built(name, kind, 5)
    model, target = two_models(method, 0)
    episodes = random_episodes(spec, 1)
    obs = episodes.observations
    alone = jnp.zeros_like(obs.present).at[..., 0].set(True)
    dying = with_dead(obs)
    changed = {
        "nobody sees anything": replace(obs, visible=jnp.zeros_like(obs.visible)),
        "one agent alone": replace(obs, present=alone, visible=obs.visible & alone[..., None, :] & alone[..., :3, None]),
        "one action": replace(obs, available=jnp.zeros_like(obs.available).at[..., 0].set(True)),
        "agents die": dying,
        "the dead are gone": without_dead(dying),
    }[state]
    loss, gradient = jitted_loss(method)(model, target, replace(episodes, observations=changed), jax.random.key(0))
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def with_dead(obs: Observation) -> Observation:
    """The first agent is dead from the second instant on, its whole team from the third; the dead see only themselves."""
    agents = obs.visible.shape[-2]
    alive = obs.present.at[:, 1:, 0].set(False).at[:, 2:, :agents].set(False)
    both = alive[..., :agents, None] & alive[..., None, :]
    oneself = jnp.eye(agents, obs.present.shape[-1], dtype=bool) & obs.agent_present[..., None]
    nothing = jnp.arange(obs.available.shape[-1]) == 0
    return replace(
        obs,
        alive=alive,
        visible=(obs.visible & both) | oneself,
        available=jnp.where(alive[..., :agents, None], obs.available, nothing),
    )


@every_method
@pytest.mark.parametrize("spec", [Spec(1, 1, 4, 5, TIME, aimed=3), Spec(3, 3, 4, 5, TIME, aimed=3)], ids=["one", "agents only"])
def test_gradients_are_finite_in_the_smallest_worlds(name, spec):
    method = small(name, KINDS[1], spec)
    models = two_models(built(name, KINDS[1], 5)[0], 0)  # what is learned does not depend on how many there are
    loss, gradient = jitted_loss(method)(*models, random_episodes(spec, 1), jax.random.key(0))
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(gradient))


@every_case
def test_playing_step_by_step_sees_what_learning_sees(name, kind):
    method, spec = built(name, kind, 5)
    model, obs = two_models(method, 3)[0], random_episodes(spec, 3).observations
    whole = jitted_q(method)(model, obs)
    memory = model.utility.start(EPISODES, spec.agents)
    for time in range(TIME + 1):
        memory, q = model.utility.step(memory, jax.tree.map(lambda leaf, t=time: leaf[:, t], obs), jax.random.key(0))
        np.testing.assert_allclose(q, whole[:, time], atol=1e-5)


@pytest.mark.parametrize(("imagining", "plain"), [("refil", "qmix_attention"), ("refil_vdn", "vdn_attention")])
@every_kind
@few
@given(seed=seeds)
def test_with_lambda_0_an_update_is_that_of_the_method_without_imagination(imagining, plain, kind, seed):
    method, spec = built(imagining, kind, 5, imagined_weight=0.0)
    reference, _ = built(plain, kind, 5)
    model, target = two_models(reference, seed)
    episodes = random_episodes(spec, seed)
    ours = jitted_loss(method)(model, target, episodes, jax.random.key(seed))
    assert_trees_close(ours, jitted_loss(reference)(model, target, episodes, jax.random.key(seed)), 1e-6)


@every_kind
def test_a_tiny_lambda_is_almost_lambda_0(kind):
    method, spec = built("refil", kind, 5, imagined_weight=1e-6)
    reference, _ = built("qmix_attention", kind, 5)
    model, target = two_models(reference, 5)
    episodes = random_episodes(spec, 5)
    ours = jitted_loss(method)(model, target, episodes, jax.random.key(5))
    assert_trees_close(ours, jitted_loss(reference)(model, target, episodes, jax.random.key(5)), 1e-4)


@every_kind
def test_one_group_of_everyone_imagines_what_is_real(kind):
    """With all entities on one side the first factor is the real utility and the second sees nothing."""
    method, spec = built("refil_vdn", kind, 5, groups=1, imagined_weight=1.0)
    model, target = two_models(method, 6)
    episodes = random_episodes(spec, 6)
    obs = episodes.observations
    blind = model.utility.unroll(obs, jnp.zeros_like(obs.visible)[None])[0][0]
    real = model.utility.unroll(obs, obs.visible[None])[0][0]
    picked = jax.nn.one_hot(episodes.actions, spec.actions)
    expected = ((real + blind)[:, :-1] * picked).sum(axis=(-1, -2))
    plain, _ = built("vdn_attention", kind, 5)
    value = ((real)[:, :-1] * picked).sum(axis=(-1, -2))
    plain_loss = plain.loss(model, target, episodes, jax.random.key(0))[0]
    # (imagined - goal)^2 = (value - goal)^2 + 2 (value - goal) d + d^2 with d = imagined - value, so goals follow from losses
    difference = expected - value
    goals = goals_of(model, target, episodes)
    valid = episodes.valid
    imagined = jnp.where(valid, (value + difference - goals) ** 2, 0).sum() / valid.sum()
    np.testing.assert_allclose(jnp.where(valid, (value - goals) ** 2, 0).sum() / valid.sum(), plain_loss, rtol=1e-4)
    np.testing.assert_allclose(method.loss(model, target, episodes, jax.random.key(0))[0], imagined, rtol=1e-4)


def goals_of(model: Model, target: Model, episodes: Episode):
    """The target of VDN by hand."""
    obs = episodes.observations
    q = model.utility.unroll(obs, obs.visible[None])[0][0]
    best = jnp.where(obs.available, q, -jnp.inf).argmax(axis=-1)
    values = jnp.take_along_axis(target.utility.unroll(obs, obs.visible[None])[0][0], best[..., None], axis=-1)[..., 0].sum(-1)
    return episodes.rewards + 0.99 * jnp.where(episodes.terminated, 0.0, values[:, 1:])


def test_several_samples_average_their_losses():
    one, spec = built("refil", "feed-forward, linear", 5, imagined_weight=1.0)
    four, _ = built("refil", "feed-forward, linear", 5, imagined_weight=1.0, samples=4)
    model, target = two_models(one, 7)
    episodes = random_episodes(spec, 7)
    loss = four.loss(model, target, episodes, jax.random.key(0))[0]
    by_draw = [float(jitted_loss(one)(model, target, episodes, jax.random.key(i))[0]) for i in range(64)]
    assert min(by_draw) <= loss <= max(by_draw)
    spread = [float(jitted_loss(four)(model, target, episodes, jax.random.key(i))[0]) for i in range(64)]
    assert np.std(spread) < 0.75 * np.std(by_draw)  # half of it, in the long run
    np.testing.assert_allclose(np.mean(spread), np.mean(by_draw), rtol=0.1)


@every_kind
def test_absolute_mixing_weights_are_positive_too(kind):
    method, spec = built("qmix_attention", kind, 5, positive="absolute")
    model, obs = two_models(method, 8)[0], random_episodes(spec, 8).observations
    value = partial(jitted_value(method), model, obs, views=obs.full_view[None])
    slope = jax.grad(lambda utilities: value(utilities).sum())(jnp.ones((1, *obs.agent_present.shape)))
    assert (np.asarray(slope) >= 0).all()


def test_parameters_are_as_many_as_the_papers_networks_have():
    def count(tree) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(tree))

    model = jax.eval_shape(experiment.default("group_matching", "refil").build().method.init, jax.random.key(0))
    assert (count(model.utility), count(model.mixer.weights), count(model.mixer)) == (17_731, 19_616, 39_232)
    refil = plugins.load("refil.methods", "refil")
    for features, actions, utility, mixer in (
        (38, 14, 106_574, 306_304),
        (39, 14, 106_702, 306_816),
        (46, 22, 109_142, 314_496),
    ):
        method = refil.build(refil.Config(), Spec(8, 16, features, actions, 150))
        model = jax.eval_shape(method.init, jax.random.key(0))
        assert (count(model.utility), count(model.mixer)) == (utility, mixer)


@every_method
def test_an_update_moves_every_parameter_that_matters(name):
    method, spec = built(name, "recurrent, attention", 5)
    optimiser = learn.rmsprop(5e-4, 10.0)
    learner = jax.jit(partial(learn.begin, method, optimiser))(jax.random.key(0))
    learned, _ = jax.jit(partial(learn.update, method, optimiser))(learner, random_episodes(spec, 2), jax.random.key(1))
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), learner.model, learned.model)
    still = {jax.tree_util.keystr(path) for path, moves in jax.tree_util.tree_leaves_with_path(moved) if not moves}
    # ROMA scales distances of roles from the least to the most of an instant, so that what is added to all is lost.
    assert still <= ({".utility.unlike.leave.bias"} if name == "roma" else set())


class Wrong(eqx.Module):
    """A utility or a mixer that gives something else than it should."""

    right: eqx.Module
    change: Callable = eqx.field(static=True)

    def start(self, *batch):
        return self.right.start(*batch)

    def step(self, *given):
        return self.right.step(*given)

    def unroll(self, *given):
        return self.change(*self.right.unroll(*given))

    def read(self, *given):
        return self.right.read(*given)

    def values(self, *given):
        return self.change(self.right.values(*given))


@pytest.mark.parametrize(
    ("part", "change", "says"),
    [
        ("utility", lambda q, made: q, "unroll of Wrong must give a pair"),
        ("utility", lambda q, made: (q, None), "and what beside gives"),
        ("utility", lambda q, made: (q[..., 1:], made), r"unroll of Wrong must give utilities of shape \(1, .* not \(1, "),
        ("mixer", lambda values: values[0], r"values of Wrong must have shape \(1, .* one for each of made_of"),
    ],
)
def test_a_network_of_ones_own_that_gives_something_else_is_refused_by_name(part, change, says):
    method, spec = built("refil", "feed-forward, linear", 5)
    model = method.init(jax.random.key(0))
    model = replace(model, **{part: Wrong(getattr(model, part), change)})
    with pytest.raises(RefilError, match=says):
        method.loss(model, model, random_episodes(spec, 5), jax.random.key(1))
