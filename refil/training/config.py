"""The config of a run: environment, method and all options, by name; how it is stored, and what it builds."""

import dataclasses
import importlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro

from refil import plugins, settings
from refil.errors import RefilError, list_choices
from refil.settings import Flat, Inline
from refil.training import contracts, flags, stored
from refil.training.replay.config import ReplayConfig
from refil.training.setup import OutputConfig, Setup, TrainConfig
from refil.types import Env, EnvDefaults
from refil.wrappers import MaskDead

VERSION = 2
ENVS, METHODS, ALGORITHMS = "refil.envs", "refil.methods", ("replay", "onpolicy")
SECTIONS = ("algorithm", "train", "output")  # groups of options that every run has
# Options that version 0.1 had under another name.
RENAMED = {"fold": "pack", "condense": "compact_checkpoints", "max_norm": "max_grad_norm"}


@dataclass(frozen=True)
class PluginConfig:
    """A plug-in by its name, and its options; for a user's file the name of the file, and the SHA-256 of its content."""

    name: tyro.conf.Suppress[tyro.conf.Fixed[str]]
    options: Inline[Any]
    sha256: tyro.conf.Suppress[tyro.conf.Fixed[str]] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the hash and the options as plain values."""
        return {"name": self.name} | ({"sha256": self.sha256} if self.sha256 else {}) | dataclasses.asdict(self.options)


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run."""

    env: PluginConfig
    method: PluginConfig
    algorithm: Flat[Any] = field(default_factory=ReplayConfig)
    train: Flat[TrainConfig] = field(default_factory=TrainConfig)
    output: Flat[OutputConfig] = field(default_factory=OutputConfig)

    def with_options(
        self, env_options: dict[str, Any] | None = None, method_options: dict[str, Any] | None = None, **changes: Any
    ) -> "RunConfig":
        """Return a copy with other options; `changes` are fields of `train`, `algorithm` or `output`."""
        env = settings.from_json(self.env.options, env_options or {}, ("env",))
        method = settings.from_json(self.method.options, method_options or {}, ("method",))
        groups = _group_by_section(self, changes)
        sections = {name: settings.from_json(getattr(self, name), values, (name,)) for name, values in groups.items()}
        return replace(self, env=replace(self.env, options=env), method=replace(self.method, options=method), **sections)

    def configure(self) -> None:
        """Set JAX and XLA up for this run, which changes global state: the command line does it, the Python API does not."""
        flags.configure(self.train.precision, self.train.deterministic, self.train.kernels)

    def build_env(self) -> Env:
        """Build the environment and check its contract."""
        env = contracts.build(plugins.load(ENVS, self.env.name, self.env.sha256), self.env.name, self.env.options)
        contracts.check_env(env, self.env.name)
        return MaskDead(env) if self.train.mask_dead else env

    def build(self, dry_run: bool = False) -> Setup:
        """Build the environment and the method, and check that all sizes fit.

        `dry_run` also traces an update and plays a few steps where the environment or the method is a user's file.
        """
        env = self.build_env()
        if self.train.steps < env.spec.horizon:
            raise RefilError(f"train.steps {self.train.steps} is less than one episode ({env.spec.horizon} steps)")
        algorithm = algorithm_config(self.method.name, self.method.sha256)
        algorithm.check(self.algorithm, self.train)
        module = plugins.load(METHODS, self.method.name, self.method.sha256)
        method = contracts.build(module, self.method.name, self.method.options, env.spec)
        contracts.check_method(method, self.method.name, algorithm.METHOD)
        setup = Setup(env, method, self.algorithm, self.train, flags.compute_dtype(self.train.precision))
        contracts.check_hosted(env, self.env.name, algorithm_name(self.method.name, self.method.sha256), self.output, dry_run)
        if dry_run and self.has_user_code:
            self._try_out(setup)
        return setup

    @property
    def has_user_code(self) -> bool:
        """Whether the environment or the method is a user's file."""
        return contracts.is_user_file(self.env.name) or contracts.is_user_file(self.method.name)

    def _try_out(self, setup: Setup) -> None:
        contracts.check_learning(setup, self.method.name)
        if contracts.is_user_file(self.env.name):
            contracts.dry_run(setup.env, self.env.name)

    def algorithm_module(self, part: str = "loop") -> Any:
        """Return a module of the algorithm that trains the method."""
        return importlib.import_module(f"refil.training.{algorithm_name(self.method.name, self.method.sha256)}.{part}")

    def code(self) -> dict[str, bytes]:
        """Return the sources of the users' files that the config names, by their paths in the folder of a run."""
        files = {kind: names for kind, names in self.names().items() if names[1]}
        return {stored.code_path(kind, names[0]): plugins.find_file(*names).source for kind, names in files.items()}

    def names(self) -> stored.Names:
        """Return the names and hashes of environment and method."""
        return {"env": (self.env.name, self.env.sha256), "method": (self.method.name, self.method.sha256)}

    def to_json(self) -> str:
        """Return the text that `read` parses; `stop_after` is not stored because it holds for one process only."""
        sections = {name: dataclasses.asdict(getattr(self, name)) for name in SECTIONS}
        sections["output"].pop("stop_after")
        values = {"version": VERSION, "env": self.env.to_dict(), "method": self.method.to_dict()} | sections
        return json.dumps(values, indent=2) + "\n"


def default(env: str, method: str) -> RunConfig:
    """Return the default config of an environment and a method: the paper's where the paper has them."""
    return _default(plugins.identify(ENVS, env), plugins.identify(METHODS, method))


def default_like(config: RunConfig, method: str | None = None) -> RunConfig:
    """Return the default config of the same environment and the same method, or another one."""
    own = config.names()
    return _default(own["env"], own["method"] if method is None else plugins.identify(METHODS, method))


def _default(env: tuple[str, str], method: tuple[str, str]) -> RunConfig:
    env_module, method_module = plugins.load(ENVS, *env), plugins.load(METHODS, *method)
    env_options = contracts.default_options(env_module, env[0], ("config",))
    method_options = contracts.default_options(method_module, method[0], ("config", "spec"))
    env_defaults: EnvDefaults = getattr(env_module, "DEFAULTS", EnvDefaults())
    algorithm = algorithm_config(*method)
    return RunConfig(
        PluginConfig(env[0], env_options, env[1]),
        PluginConfig(method[0], settings.apply_defaults(method_options, env_defaults), method[1]),
        settings.apply_defaults(algorithm.Config(), env_defaults),
        *algorithm.defaults(settings.apply_defaults(TrainConfig(), env_defaults), OutputConfig()),
    )


def read(text: str, source: str, folder: Path | None = None, trust: bool = False) -> RunConfig:
    """Parse a stored config, also one that version 0.1 wrote; `source` names the file in errors.

    Code that the config names is loaded from `folder` if the user trusts it or `trust` is given; otherwise an error is raised
    before any of it runs. Without a folder, this process must have loaded it before. Since version 2 no option may be missing.
    """
    values = stored.parse(text, source)
    try:
        return stored.check_complete(_from_values(stored.load_code(values, folder, trust)), values)
    except RefilError as error:
        raise RefilError(f"{source}: {error}") from error


def compare(text: str, source: str, config: RunConfig, complete: bool = False) -> dict[str, tuple[Any, Any]]:
    """Return the options in which a stored config differs from a given one, as `differences` does; no stored code runs.

    If it must be `complete`, missing options are refused and missing hashes are differences; otherwise neither matters.
    """
    values = stored.parse(text, source)
    names, hashes = stored.mismatched_names(values, config.names())
    if names:
        return names
    for kind, (name, sha256) in config.names().items():
        values[kind] |= {"name": name, "sha256": sha256}
    try:
        found = _from_values(values)
        return differences(stored.check_complete(found, values), config) | hashes if complete else differences(found, config)
    except RefilError as error:
        raise RefilError(f"{source}: {error}") from error


def _from_values(values: dict[str, Any]) -> RunConfig:
    values = dict(values)
    env, method = dict(values.pop("env")), dict(values.pop("method"))
    names = ((each.pop("name"), each.pop("sha256")) for each in (env, method))
    config = _default(*names)
    method = stored.fill_in_method(method, config.method.options)
    version = values.pop("version", 1)
    if type(version) is not int or version not in (1, VERSION):
        raise RefilError(f"the config has version {version}; this version of refil reads 1 and {VERSION}")
    sections = _group_by_section(config, values) if version == 1 else values
    return replace(
        config,
        env=replace(config.env, options=settings.from_json(config.env.options, env, ("env",))),
        method=replace(config.method, options=settings.from_json(config.method.options, method, ("method",))),
        **_read_sections(config, sections),
    )


def differences(saved: RunConfig, requested: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the options that differ, by path, with both values; only the names if environment or method differ."""
    ours, theirs = ({kind: stored.identity(*names) for kind, names in each.names().items()} for each in (saved, requested))
    names = {f"{kind}.name": (ours[kind], theirs[kind]) for kind in ours if ours[kind] != theirs[kind]}
    return names or settings.differences(saved, requested)


def is_changeable(path: str) -> bool:
    """Return whether an option may change when a run is resumed."""
    return path == "train.steps" or path.startswith("output.")


CHANGEABLE = ("train.steps", *(f"output.{each.name}" for each in dataclasses.fields(OutputConfig)))


def resumed(saved: RunConfig, requested: RunConfig) -> RunConfig:
    """Return the config to resume a run with; raise if an option differs that may not change."""
    check_changes(differences(saved, requested))
    return requested


def check_changes(changes: dict[str, tuple[Any, Any]]) -> None:
    """Raise if an option differs that may not change when a run is resumed."""
    for path, (old, new) in changes.items():
        if not is_changeable(path):
            raise RefilError(f"cannot resume with {path} {new} instead of {old}; only {', '.join(CHANGEABLE)} may change")


def algorithm_name(method: str, sha256: str = "") -> str:
    """Return the algorithm that a method's file asks for; training from a replay buffer unless it says otherwise."""
    if (name := getattr(plugins.load(METHODS, method, sha256), "ALGORITHM", "replay")) not in ALGORITHMS:
        raise RefilError(f"{method}: ALGORITHM is {name!r}; it must be one of {', '.join(map(repr, ALGORITHMS))}")
    return name


def algorithm_config(method: str, sha256: str = "") -> Any:
    """Return the module of the options of the algorithm that trains a method."""
    return importlib.import_module(f"refil.training.{algorithm_name(method, sha256)}.config")


def _group_by_section(config: RunConfig, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    section = {each.name: name for name in SECTIONS for each in dataclasses.fields(getattr(config, name))}
    groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        current = RENAMED.get(name, name)
        if current not in section:
            raise RefilError(f"unknown option {name!r}; {list_choices(current, sorted(section))}")
        groups.setdefault(section[current], {})[current] = value
    return groups


def _read_sections(config: RunConfig, sections: dict[str, Any]) -> dict[str, Any]:
    for name in sections:
        if name not in SECTIONS:
            raise RefilError(f"the config has no section {name!r}; available: env, method, {', '.join(SECTIONS)}")
    return {name: settings.from_json(getattr(config, name), values, (name,)) for name, values in sections.items()}
