#!/usr/bin/env bash
# Make .tools/ray for `make planted`: a virtual environment with the Ray of NeMo RL v0.7.0, without torch.
# usage: tools/ray.sh     PYTHON=python3 by default.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.55.1
venv=.tools/ray
if [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$version" ]; then
  echo "up to date: ray $version as processes"
  exit 0
fi
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "ray[default]==$version"
# The sandbox shows it at the image's path.
grep -rlI --max-count=1 "^#!.*/bin/python" "$venv/bin" | xargs sed -i '1s|^#!.*/bin/python.*|#!/opt/nemo_rl_venv/bin/python|'
echo "$version" >"$venv/.stamp"
echo "installed: ray $version as processes"
