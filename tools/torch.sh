#!/usr/bin/env bash
# Make .tools/torch, a virtual environment with the libraries of the training image that the tests of jobs/ run for real.
# usage: tools/torch.sh     PYTHON=python3.11 by default python3; torch 2.13.0 has wheels for CPython 3.10 to 3.14.
# The CPU build does: where the index serves the CUDA build, set PIP_EXTRA_INDEX_URL or PIP_INDEX_URL to one with CPU wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(
  torch==2.13.0 numpy safetensors     # checkpoints as the trainers write them
  huggingface_hub                     # the cache that a task reads
  pyarrow                             # data sets as Parquet
  omegaconf                           # the frameworks' configuration
  math-verify                         # the reward's judge
)
venv=.tools/torch
python=${PYTHON:-python3}
check='import huggingface_hub, math_verify, numpy, omegaconf, pyarrow, safetensors, torch; print("torch", torch.__version__)'
if installed=$("$venv/bin/python" -c "$check" 2>/dev/null) && [[ $installed == "torch 2.13.0"* ]]; then
  echo "up to date: $installed"
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' ||
  { echo "tools/torch.sh: needs Python 3.10 to 3.14, got $("$python" --version); set PYTHON" >&2; exit 3; }
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
echo "installed: $("$venv/bin/python" -c "$check")"
