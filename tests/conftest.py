"""Types of arguments and shapes of arrays are checked in tests, and only there."""

import atexit
import os
import shutil
import tempfile

# Many tests train the same tiny game, some in processes of their own: what one has compiled serves them all.
cache = tempfile.mkdtemp(prefix="refil-tests-")
atexit.register(shutil.rmtree, cache, ignore_errors=True)
os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

from jaxtyping import install_import_hook  # noqa: E402 (the cache's place has to be known first)

hook = install_import_hook("refil", "beartype.beartype")
