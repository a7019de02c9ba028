"""What is to be trained: an environment, a method and all options, by name; and what that builds."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeFloat
from refil.training import setup
from refil.training.setup import Loop, Schedule
from refil.types import Defaults, Env, Method, MethodInfo, Model, Observation, without_dead

PRODUCTS = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "tensorfloat32"}  # in JAX's words
ACTIVATIONS = {"float32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16}
SAME_BYTES = "--xla_gpu_deterministic_ops=true"
CACHE = Path.home() / ".cache" / "refil"  # of compiled programs, unless JAX_COMPILATION_CACHE_DIR says where
Precision = Literal["float32", "tf32", "bf16"]
ENVS, METHODS = "refil.envs", "refil.methods"
CHANGEABLE = ("--steps", "--save-every", "--condense", "--stop-after", "--tensorboard", "--wandb")  # on resuming a run


@dataclass(frozen=True)
class Options(Schedule):
    """Options of a run."""

    save_every: NonNegativeFloat = 5.0  # minutes between saves
    condense: bool = False  # save of episodes only what they can be played again from: of battles a fortieth
    stop_after: NonNegativeFloat | None = None  # minutes, compiling included, after which to save and stop this time
    tensorboard: bool = False  # write TensorBoard events into the run's folder
    wandb: str | None = None  # log to this Weights & Biases project
    precision: Precision = "float32"  # of products on a GPU, bf16 of rows too (authors: float32)
    deterministic: bool = False  # the same bytes on every run on a GPU too, for some speed (a CPU gives them anyway)
    env: Any = None  # options of the environment
    method: Any = None  # options of the method


@dataclass(frozen=True)
class Experiment:
    """Names and options."""

    env: str
    method: str
    options: Options

    def prepare_device(self) -> None:
        """Set what JAX takes from outside; nothing may have run on the device yet."""
        flags = os.environ.get("XLA_FLAGS", "")
        if self.options.deterministic and SAME_BYTES not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {SAME_BYTES}"
        jax.config.update("jax_default_matmul_precision", PRODUCTS[self.options.precision])
        if jax.default_backend() == "gpu" and jax.config.jax_compilation_cache_dir is None:
            jax.config.update("jax_compilation_cache_dir", str(CACHE))  # compiling takes a minute there

    def build_env(self) -> Env:
        """The environment, on a device that is set for it: building may put arrays there, after which flags go unread."""
        self.prepare_device()
        env = plugins.load(ENVS, self.env).build(self.options.env)
        return WithoutDead(env) if self.options.mask_dead else env

    def build(self) -> Loop:
        """The environment, the method and their schedule."""
        env = self.build_env()
        setup.check(self.options, env.spec.horizon)
        method = plugins.load(METHODS, self.method).build(self.options.method, env.spec)
        check_method(method, self.method)
        return Loop(env, method, self.options, ACTIVATIONS[self.options.precision])

    def parts(self) -> dict[str, Any]:
        """The environment and the method, as plain values."""
        env, method = (dataclasses.asdict(part) for part in (self.options.env, self.options.method))
        return {"env": {"name": self.env} | env, "method": {"name": self.method} | method}

    def to_json(self) -> str:
        """Text that `read` turns back, but for when to stop, which holds for one process."""
        options = dataclasses.replace(self.options, stop_after=None)
        return json.dumps(dataclasses.asdict(options) | self.parts(), indent=2) + "\n"


def check_method(method: Any, name: str) -> None:
    """Refuse sizes that cannot be, and what is no method."""
    if not isinstance(method, Method):
        raise RefilError(f"build of {name} gave {type(method).__name__} instead of refil.types.Method")
    model = jax.eval_shape(lambda: method.init(jax.random.key(0)))
    if not isinstance(model, Model):
        raise RefilError(f"init of {name} gave {type(model).__name__} instead of refil.types.Model")
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            raise RefilError(f"the model of {name} has {leaf.dtype} in {where}; what is not learned is eqx.field(static=True)")


@dataclass(frozen=True)
class WithoutDead:
    """An environment whose dead entities are absent."""

    alive: Env

    def __post_init__(self) -> None:
        for name in ("spec", "tasks", "task_names", "reset", "step", "scene"):
            if hasattr(self.alive, name):  # not every environment can be drawn
                object.__setattr__(self, name, getattr(self.alive, name))

    def observe(self, state: Any) -> Observation:
        """What the living see of the living."""
        return without_dead(self.alive.observe(state))


def card(method: str) -> MethodInfo:
    """A method's row in the paper's table; one that brings none along goes by its own name."""
    return getattr(plugins.load(METHODS, method), "INFO", MethodInfo(method, "", ""))


def label(method: str) -> str:
    """What the paper calls a method."""
    return card(method).label


def default(env: str, method: str) -> Experiment:
    """The paper's settings for an environment and a method; files of one's own are found from any folder then."""
    env, method = plugins.located(env), plugins.located(method)
    env_module, method_module = plugins.load(ENVS, env), plugins.load(METHODS, method)
    under: Defaults = getattr(env_module, "DEFAULTS", Defaults())
    options = Options(env=env_module.Config(), method=settings.apply_defaults(method_module.Config(), under))
    return Experiment(env, method, settings.apply_defaults(options, under))


def read(text: str, source: str) -> Experiment:
    """The experiment that `to_json` wrote; `source` is where the text came from."""
    try:
        values = json.loads(text)
        env, method = dict(values.pop("env")), dict(values.pop("method"))
        names = str(env.pop("name")), str(method.pop("name"))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RefilError(f"{source} is not a config of refil: {error}") from error
    try:
        experiment = default(*names)
        options = settings.from_json(experiment.options, values | {"env": env, "method": method})
    except RefilError as error:
        raise RefilError(f"{source}: {error}") from error
    return dataclasses.replace(experiment, options=options)


def differences(saved: Experiment, asked: Experiment) -> dict[str, tuple[Any, Any]]:
    """In what two experiments differ, as typed, with both values; options only where environment and method are the same."""
    names = {"ENV": (saved.env, asked.env), "--method": (saved.method, asked.method)}
    other = {name: pair for name, pair in names.items() if pair[0] != pair[1]}
    return other or settings.differences(saved.options, asked.options)


def continued(saved: Experiment, asked: Experiment) -> Experiment:
    """The saved experiment with what was asked for, where that may change in a run under way."""
    for name, (old, new) in differences(saved, asked).items():
        if name not in CHANGEABLE:
            allowed = ", ".join(CHANGEABLE)
            raise RefilError(f"a run cannot go on with another {name} ({new} instead of {old}); only {allowed} may change")
    return asked
