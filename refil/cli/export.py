"""Export a trained team as a Python file and its weights that need only NumPy."""

import io
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from refil import settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt

if TYPE_CHECKING:
    from refil.team import Team


@dataclass(frozen=True)
class ExportArgs:
    """The team to export, and the folder to write."""

    # Team that ships with refil (see 'refil teams'), or folder of a run
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    out: Path  # Folder for policy.py and policy.npz
    model: NonNegativeInt | None = None  # Training seed of the model (None: the first seed of the run)
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first


def main(arguments: list[str]) -> None:
    """Write the policy."""
    args = settings.from_command_line(ExportArgs, arguments, "refil export", __doc__)
    from refil import teams

    export(teams.load_any(args.run, args.model, args.trust), args.out)
    print(f"Policy: {args.out / 'policy.py'} (needs only NumPy)\nWeights: {args.out / 'policy.npz'}")


def export(team: "Team", folder: Path) -> None:
    """Write a team's policy into a folder."""
    import numpy as np

    from refil.storage import serialization

    check(team)
    content = io.BytesIO()
    np.savez(content, info=np.array(json.dumps(describe(team))), **serialization.named_leaves(team.model.utility))
    serialization.make_folder(folder)
    serialization.write_atomic(folder / "policy.npz", content.getvalue())
    serialization.write_atomic(folder / "policy.py", resources.files("refil").joinpath("numpy_policy.py").read_bytes())


def check(team: "Team") -> None:
    """Raise if the team's network is not one that the policy computes."""
    from refil.nn import inspect, normalized, utilities

    utility = team.model.utility
    known = type(utility) in (utilities.GruUtility, utilities.FeedForwardUtility) and inspect.has_attention(utility)
    if not known or not isinstance(utility.encoder, utilities.EntityEncoder | normalized.NormalizedEncoder):
        raise RefilError(
            f"{team.name} cannot be exported: {type(utility).__name__} is not an attention network with or without GRU"
        )


def describe(team: "Team") -> dict[str, Any]:
    """Return what the policy needs besides the weights, and the names of features and actions."""
    from refil.nn.kernels.layer_norm import EPSILON

    utility, spec = team.model.utility, team.env.spec
    return {
        "name": team.name,
        "seed": team.seed,
        "agents": spec.agents,
        "heads": utility.encoder.aggregator.heads,
        "last_action_dim": utility.last_action_dim,
        "epsilon": EPSILON,
        "features": list(getattr(team.env, "feature_names", ())),
        "actions": list(getattr(team.env, "action_names", ())),
    }
