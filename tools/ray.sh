#!/usr/bin/env bash
# Make .tools/ray, a virtual environment with the Ray that the training image carries (NeMo RL v0.7.0: Ray 2.55.1).
# usage: tools/ray.sh     PYTHON=python3.11 by default python3; Ray 2.55.1 has wheels for CPython 3.10 to 3.13.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.55.1
venv=.tools/ray
python=${PYTHON:-python3}
if [ "$("$venv/bin/python" -c 'import ray; print(ray.__version__)' 2>/dev/null)" = "$version" ]; then
  echo "up to date: ray $version"
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' ||
  { echo "tools/ray.sh: needs Python 3.10 to 3.13, got $("$python" --version); set PYTHON" >&2; exit 3; }
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "ray[default]==$version"
# The first start would otherwise spend 15 seconds on compiling, inside a test's time limit.
"$venv/bin/python" -m compileall -q "$venv/lib" || true
"$venv/bin/python" -c 'import ray; print("installed: ray", ray.__version__)'
