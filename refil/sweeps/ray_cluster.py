"""Runs on a Ray cluster, whose machines need not share a file system.

A run is an actor that reserves its resources, gets the run's folder as bytes and trains in a copy. The sweep asks it every few
seconds for the files that have changed, and writes them to its own folder, whose claim it holds meanwhile. When a process or a
node dies, the scheduler starts the run again elsewhere, from the last checkpoint that was shipped.
"""

import contextlib
import logging
import math
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.storage.lock import locked
from refil.sweeps import local, shipping
from refil.sweeps.executor import JobResult
from refil.sweeps.process import Process
from refil.sweeps.shipping import Changes, Stamps

SECONDS_BETWEEN_POLLS = 2.0
SECONDS_TO_CONNECT = 5.0
NAMES = ("auto", "local")


class RayExecutor:
    """Trains runs on the nodes of a Ray cluster: `slots` per GPU, or per node where the cluster has no GPUs."""

    def __init__(self, address: str, slots: int, gpus: int | None) -> None:
        self.ray = _connect(address)
        self.slots = slots
        self.on_gpu = gpus != 0 and self._total("GPU") > 0
        self.most = math.inf if not gpus else gpus * slots
        if gpus and self._total("GPU") < gpus:
            found = self._total("GPU")
            self.close()
            raise RefilError(f"gpus={gpus} asks for more GPUs than the Ray cluster at {address} has: {found:g}")
        if self.capacity() < 1:
            self.close()
            raise RefilError(f"the Ray cluster at {address} has no CPU for a run")

    def capacity(self) -> int:
        """Return how many runs fit into the nodes that are alive."""
        return int(min(self._fits(), self.most))

    def start(self, path: Path, minutes: float | None, environment: dict[str, str]) -> "RayJob":
        """Start an actor that trains the run in a folder."""
        shared = local.memory(self.slots, os.environ) if self.on_gpu else {"JAX_PLATFORMS": "cpu"}
        gpus = 1 / self.slots if self.on_gpu else 0
        cpus = 1 if self.on_gpu else self._cpus()
        actor = self.ray.remote(_Worker).options(num_cpus=cpus, num_gpus=gpus, max_restarts=0)
        return RayJob(self.ray, actor, path, environment | shared, minutes)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self.ray.shutdown()

    def _total(self, resource: str) -> float:
        return sum(node["Resources"].get(resource, 0) for node in self._nodes())

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _cpus(self) -> int:
        """Return the CPU cores of a run: those of the smallest node, divided by the slots."""
        counts = [count for node in self._nodes() if (count := int(node["Resources"].get("CPU", 0)))]
        return max(1, min(counts, default=1) // self.slots)

    def _fits(self) -> int:
        if self.on_gpu:
            return int(self._total("GPU")) * self.slots
        return sum(int(node["Resources"].get("CPU", 0)) // self._cpus() for node in self._nodes())


class RayJob:
    """A run that trains on a node of the cluster."""

    def __init__(self, ray: Any, actor: Any, path: Path, environment: dict[str, str], minutes: float | None) -> None:
        self.ray, self.path, self.where, self.polled = ray, path, "Ray", 0.0
        self.held = contextlib.ExitStack()
        self.held.enter_context(locked(path))
        self.actor = actor.remote(shipping.changes(path, {}), environment, minutes)
        self.pending: Any = self.actor.poll.remote()

    def poll(self) -> JobResult | None:
        """Fetch what the worker has written since the last time; return how it ended, None while it trains."""
        if self.pending is None:
            if time.monotonic() - self.polled < SECONDS_BETWEEN_POLLS:
                return None
            self.pending = self.actor.poll.remote()
        if not self.ray.wait([self.pending], timeout=0)[0]:
            return None
        try:
            self.where, ended, shipped = self.ray.get(self.pending)
            shipping.apply(self.path, shipped)
        except self.ray.exceptions.RayTaskError as error:  # the worker cannot start, for example without refil
            return self._end(JobResult("failed", str(error.cause or error).strip().splitlines()[-1]))
        except self.ray.exceptions.RayError as error:
            return self._end(JobResult("lost", _first_line(error)))
        except RefilError as error:  # this machine's disk is full
            self.actor.stop.remote()
            return self._end(JobResult("failed", str(error)))
        self.pending, self.polled = None, time.monotonic()
        return self._end(ended) if ended is not None else None

    def stop(self) -> None:
        """Ask the worker to save and stop; what it saved comes with one of the next polls."""
        self.actor.stop.remote()

    def kill(self) -> None:
        """Stop the worker at once."""
        self._end(JobResult("lost"))

    def _end(self, ended: JobResult) -> JobResult:
        with contextlib.suppress(Exception):  # it may be dead, or the cluster
            self.ray.kill(self.actor)
        self.held.close()
        return ended


class _Worker:
    """Trains in a copy of a run's folder, on a node of the cluster; Ray turns it into an actor."""

    def __init__(self, files: Changes, environment: dict[str, str], minutes: float | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="refil-run-"))
        shipping.apply(self.folder, files)
        self.known: Stamps = {}
        shipping.changes(self.folder, self.known)
        self.process = Process(self.folder, environment, minutes)

    def poll(self) -> tuple[str, JobResult | None, Changes]:
        """Return the name of this machine, how training ended (None: it has not) and what has changed in the folder."""
        ended = self.process.poll()  # first: the files are then what it left
        shipped = shipping.changes(self.folder, self.known)
        if ended is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        return socket.gethostname(), ended, shipped

    def stop(self) -> None:
        """Ask training to save and stop."""
        self.process.stop()


def _connect(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise RefilError("a Ray cluster needs the extra 'ray': pip install 'refil[ray]'") from error
    if address not in NAMES:
        _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        ray.shutdown()
        where = "no Ray cluster runs on this machine" if address == "auto" else f"cannot join the Ray cluster at {address}"
        raise RefilError(f"{where}: {_first_line(error)}") from error
    return ray


def _check_reachable(address: str) -> None:
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isdecimal()):
        raise RefilError(f"the address of a Ray cluster should be HOST:PORT, {' or '.join(NAMES)}, not {address!r}")
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise RefilError(f"there is no Ray cluster at {address}: {error}") from error


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
