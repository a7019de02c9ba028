"""Types of arguments and shapes of arrays are checked in tests, and only there."""

import atexit
import gc
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

# Many tests train the same tiny game, some in subprocesses, and share what is compiled. Each worker has its own cache, because
# one worker could read a file that another is still writing.
if "REFIL_TEST_CACHE" not in os.environ:
    os.environ["REFIL_TEST_CACHE"] = tempfile.mkdtemp(prefix="refil-tests-")
    atexit.register(shutil.rmtree, os.environ["REFIL_TEST_CACHE"], ignore_errors=True)
os.environ["XDG_STATE_HOME"] = os.path.join(os.environ["REFIL_TEST_CACHE"], "state")  # the list of trusted code
worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(os.environ["REFIL_TEST_CACHE"], worker)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
# Programs run for moments here and compile for seconds: compile them with few optimizations.
QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_max_isa=AVX"  # the second as in `refil.training.flags.NO_FMA`
if metadata.version("jaxlib").startswith("0.10."):  # later versions reject this option
    QUICKLY += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICKLY)

import jax  # noqa: E402 (the environment must be set first)
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

hook = install_import_hook("refil", "beartype.beartype")

from refil import hardware  # noqa: E402 (the hook must be installed first)

MEMORY_MAP, MAX_MAPPED = Path("/proc/self/maps"), 30_000


def pytest_collection_modifyitems(config, items):
    """Skip tests marked gpu without a GPU; `make test-gpu` runs only them."""
    if jax.default_backend() != "gpu":
        if config.option.markexpr == "gpu":
            raise pytest.UsageError("these tests need a GPU, and JAX finds none")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def forget_programs():
    """Drop compiled programs: they fill the memory map of the process, and JAX crashes when that is full."""
    jax.clear_caches()
    gc.collect()


@pytest.fixture(autouse=True)
def asked_again_for_the_backend():
    """Some tests pretend that there is a GPU."""
    hardware.on_gpu.cache_clear()
    yield
    hardware.on_gpu.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def forgotten_after_each_module():
    yield
    forget_programs()


@pytest.fixture(autouse=True)
def forgotten_before_there_are_too_many(request):
    yield
    request.session.finished = getattr(request.session, "finished", 0) + 1
    if request.session.finished % 8 == 0 and MEMORY_MAP.exists() and MEMORY_MAP.read_bytes().count(b"\n") > MAX_MAPPED:
        forget_programs()
