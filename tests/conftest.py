"""Types of arguments and shapes of arrays are checked in tests, and only there."""

import atexit
import os
import shutil
import tempfile

# Many tests train the same tiny game, some in processes of their own: what one has compiled serves them all.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # else another process of this session has made one
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="refil-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

from jaxtyping import install_import_hook

hook = install_import_hook("refil", "beartype.beartype")
