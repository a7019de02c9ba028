"""Sweeps on a Ray cluster."""

import time

import pytest

from refil.errors import RefilError
from refil.sweeps import ray_cluster
from tests.sweeps import tiny_sweeps


@pytest.fixture
def cluster():
    """Two nodes on this machine, with a CPU each; they share no folder of runs."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs the extra 'ray'")
    arguments = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    started = cluster_utils.Cluster(initialize_head=True, head_node_args=arguments)
    yield started
    started.shutdown()


@pytest.mark.slow
def test_a_sweep_whose_node_dies_ends_with_the_same_bytes(cluster, tmp_path, undisturbed):
    node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    cluster.wait_for_nodes()
    out, mine = tmp_path / "out", tiny_sweeps.write_experiment(tmp_path)
    sweep = tiny_sweeps.start("sweep", mine, "--ray", cluster.address, "--out", out)
    try:
        tiny_sweeps.wait_until(lambda: all(tiny_sweeps.is_in_the_middle(out / name) for name in tiny_sweeps.RUNS), sweep)
        cluster.remove_node(node, allow_graceful=False)
    finally:
        printed, code = tiny_sweeps.finish(sweep)
    assert code == 0, printed
    assert printed.count("lost ") == 1, printed
    assert tiny_sweeps.results(out) == undisturbed
    assert (out / "report.txt").read_text() == "A B"
    assert not list(out.glob("*/claim_*"))


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("127.0.0.1:1", "there is no Ray cluster at 127.0.0.1:1: .*refused"),
        ("nowhere", "the address of a Ray cluster should be HOST:PORT, auto or local, not 'nowhere'"),
        ("host:", "should be HOST:PORT, auto or local, not 'host:'"),
        ("127.0.0.1:99999", "there is no Ray cluster at 127.0.0.1:99999"),
    ],
)
def test_an_address_without_a_cluster_is_refused_quickly(address, error):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    before = time.monotonic()
    with pytest.raises(RefilError, match=error):
        ray_cluster.RayExecutor(address, 1, None)
    assert time.monotonic() - before < 60
