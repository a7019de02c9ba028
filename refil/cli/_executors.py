"""The executor that the options of `refil sweep` ask for."""

from pathlib import Path

from refil.errors import RefilError
from refil.sweeps import local
from refil.sweeps.executor import Executor


def create(
    out: Path, slots: int, gpus: int | None, ray: str | None = None, slurm: bool = False, slurm_options: tuple[str, ...] = ()
) -> Executor:
    """Return where the runs train; raise if there is no such machine."""
    if ray is not None and slurm:
        raise RefilError("choose one of --ray and --slurm")
    if slurm_options and not slurm:
        raise RefilError("--slurm-options needs --slurm")
    if ray is not None:
        from refil.sweeps.ray_cluster import RayExecutor

        return RayExecutor(ray, slots, gpus)
    if slurm:
        from refil.sweeps.slurm import SlurmExecutor

        return SlurmExecutor(out / "slurm", slurm_options, gpus)
    return local.LocalExecutor(local.slots(slots, gpus))


def uses_gpus(gpus: int | None, on_cluster: bool) -> bool:
    """Return whether runs train on GPUs, as far as that is known."""
    return gpus != 0 and (on_cluster or bool(local.find_gpus()))
