#!/bin/sh
# Make a virtual environment with JaxMARL and this package: make_jaxmarl_environment.sh FOLDER [PYTHON]
# JaxMARL 0.2 needs gymnax, which needs jax older than 0.12. A folder that is complete is left as it is.
set -eu
folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -e "$folder/.ready" ] && exit
"${2:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "jaxmarl==0.2.0" "jax<0.12" six pytest beartype -e "$root"
touch "$folder/.ready"
