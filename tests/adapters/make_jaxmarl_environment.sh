#!/bin/sh
# Make a virtual environment with JaxMARL and this package: make_jaxmarl_environment.sh FOLDER [PYTHON]
# JaxMARL 0.2 needs Python 3.12 or newer here, and jax older than 0.12.
set -eu
folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
"${2:-python3.12}" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "jaxmarl>=0.2,<0.3" "jax<0.12" six pytest beartype -e "$root"
