"""The executor that the options of `refil sweep` ask for."""

from pathlib import Path
from typing import TYPE_CHECKING

from refil.errors import RefilError
from refil.sweeps import local
from refil.sweeps.executor import Executor

if TYPE_CHECKING:
    from refil.cli.sweep import SweepArgs


def create(args: "SweepArgs", out: Path) -> Executor:
    """Return where the runs train; raise if there is no such machine."""
    if args.ray is not None and args.slurm:
        raise RefilError("choose one of --ray and --slurm")
    if args.slurm_options and not args.slurm:
        raise RefilError("--slurm-options needs --slurm")
    if args.ray is not None:
        from refil.sweeps.ray_cluster import RayExecutor

        return RayExecutor(args.ray, args.slots, args.gpus)
    if args.slurm:
        from refil.sweeps.slurm import SlurmExecutor

        return SlurmExecutor(out / "slurm", args.slurm_options, args.gpus)
    return local.LocalExecutor(local.slots(args.slots, args.gpus))


def uses_gpus(args: "SweepArgs") -> bool:
    """Return whether runs train on GPUs, as far as that is known."""
    return args.gpus != 0 and (args.ray is not None or args.slurm or bool(local.find_gpus()))
