"""Types of arguments and shapes of arrays are checked in tests, and only there."""

import atexit
import gc
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

# Many tests train the same tiny game, some in processes of their own: what one has compiled serves them all. Each worker has a
# folder of its own, because one may read what another is just writing.
if "REFIL_TEST_CACHE" not in os.environ:
    os.environ["REFIL_TEST_CACHE"] = tempfile.mkdtemp(prefix="refil-tests-")
    atexit.register(shutil.rmtree, os.environ["REFIL_TEST_CACHE"], ignore_errors=True)
worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(os.environ["REFIL_TEST_CACHE"], worker)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
# Programs here run for moments and are compiled for seconds: better to compile them quickly.
QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_max_isa=AVX"  # the second as in `refil.__main__.NO_FMA`
if metadata.version("jaxlib").startswith("0.10."):  # later ones do not know this option, and stop where they meet it
    QUICKLY += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICKLY)

import jax  # noqa: E402 (the cache must have its place first)
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

hook = install_import_hook("refil", "beartype.beartype")
MEMORY_MAP, MOST_MAPPED = Path("/proc/self/maps"), 30_000


def pytest_collection_modifyitems(config, items):
    """Tests marked gpu need one; `make test-gpu` runs them, and none else."""
    if jax.default_backend() != "gpu":
        if config.option.markexpr == "gpu":
            raise pytest.UsageError("these tests need a GPU, and JAX finds none here")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def forget_programs():
    """Compiled programs fill the process's memory map, and where that is full (65,530 pieces on Linux) JAX crashes."""
    jax.clear_caches()
    gc.collect()


@pytest.fixture(scope="module", autouse=True)
def forgotten_after_each_module():
    yield
    forget_programs()


@pytest.fixture(autouse=True)
def forgotten_before_there_are_too_many():
    yield
    if MEMORY_MAP.exists() and MEMORY_MAP.read_bytes().count(b"\n") > MOST_MAPPED:
        forget_programs()
