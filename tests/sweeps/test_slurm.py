"""Sweeps on SLURM: a real cluster of one node, set up for the test, where its packages are installed."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from refil.errors import RefilError
from refil.sweeps import slurm
from tests.sweeps import tiny_sweeps

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={port}
SlurmdPort={other_port}
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=tests Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
"""


def missing() -> str:
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"SLURM is not installed (apt-get install slurm-wlm): {', '.join(absent)} not found"
    return "" if os.geteuid() == 0 else "SLURM's daemons must be started by root"


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster of one node; REFIL_TEST_SLURM=1 demands it."""
    if reason := missing():
        assert not os.environ.get("REFIL_TEST_SLURM"), reason
        pytest.skip(reason)
    folder = Path("/tmp") / f"refil-slurm-{os.getpid()}"  # short, because names of sockets have at most 108 characters
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    port, other_port = free_ports()
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(CONFIG.format(host=host, folder=folder, port=port, other_port=other_port))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid", "log-file": "munge.log"}
    munge = [f"--{name}={folder / file}" for name, file in (files | {"seed-file": "munge.seed"}).items()]
    daemons = [["munged", "--force", "--foreground", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]]
    started = []
    try:
        for daemon in daemons:
            started.append(subprocess.Popen(daemon, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(1)
        deadline = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout:
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            time.sleep(0.5)
        yield folder
    finally:
        subprocess.run(["scancel", "--user=root"], capture_output=True)
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_sweep_whose_job_is_cancelled_ends_with_the_same_bytes(cluster, tmp_path, undisturbed):
    out, mine = tmp_path / "out", tiny_sweeps.write_experiment(tmp_path)
    sweep = tiny_sweeps.start("sweep", mine, "--slurm", "--slurm-options", "partition=tests", "time=30", "--out", out)
    try:
        tiny_sweeps.wait_until(lambda: tiny_sweeps.is_in_the_middle(out / "b"), sweep)
        jobs = subprocess.run(["squeue", "-h", "-o", "%A"], capture_output=True, text=True).stdout.split()
        subprocess.run(["scancel", "--signal=KILL", max(jobs, key=int)], check=True)
    finally:
        printed, code = tiny_sweeps.finish(sweep)
    assert code == 0, printed
    assert printed.count("lost ") >= 1, printed
    assert tiny_sweeps.results(out) == undisturbed


@pytest.mark.slow
def test_ctrl_c_saves_and_ends_all_jobs(cluster, tmp_path, undisturbed):
    out, mine = tmp_path / "out", tiny_sweeps.write_experiment(tmp_path)
    words = ("sweep", mine, "--slurm", "--slurm-options", "time=30", "--out", out)
    sweep = tiny_sweeps.start(*words)
    tiny_sweeps.wait_until(lambda: tiny_sweeps.is_in_the_middle(out / "a"), sweep)
    sweep.send_signal(2)
    printed, code = tiny_sweeps.finish(sweep)
    assert code == 130, printed
    deadline = time.monotonic() + 60  # SLURM cleans up after a job that has returned
    while subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.strip():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    printed, code = tiny_sweeps.finish(tiny_sweeps.start(*words))
    assert code == 0, printed
    assert tiny_sweeps.results(out) == undisturbed


def test_bad_options_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="needs the extra 'slurm'")
    monkeypatch.setattr(slurm.shutil, "which", lambda name: "/bin/true")
    for option, error in {"partition": "should be NAME=VALUE", "time=2h": "should be a number of minutes"}.items():
        with pytest.raises(RefilError, match=error):
            slurm.SlurmExecutor(tmp_path, (option,), None)
    assert slurm.parse_options(("mem-per-cpu=4G", "cpus_per_task=8")) == {"mem_per_cpu": "4G", "cpus_per_task": 8}
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    with pytest.raises(RefilError, match="no SLURM on this machine: it has no command sbatch"):
        slurm.SlurmExecutor(tmp_path, (), None)
