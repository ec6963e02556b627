#!/usr/bin/env bash
# Make .tools/learn for `make learn`: a framework's code, and a virtual environment in which it runs on a CPU.
# usage: tools/learn.sh     FRAMEWORK=verl by default nemo-rl. PYTHON=python3.12 by default python3.13.
# SOURCES=DIR: a folder with the tree of NeMo RL's tag, instead of a clone.
# DEVICE=cuda: the environment for a GPU, with vLLM; nothing is made in NeMo RL's image, which has all.
# The CPU build of torch does: where the index serves the CUDA build, set PIP_EXTRA_INDEX_URL or PIP_INDEX_URL to one with CPU wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
address=https://github.com/NVIDIA-NeMo/RL.git
folder=.tools/learn
example=examples/learn-on-cpu
python=${PYTHON:-python3.13}
mkdir -p "$folder"
case ${FRAMEWORK:-nemo-rl}-${DEVICE:-cpu} in
  nemo-rl-cpu) version=0.7.0 requirements=$example/requirements.txt venv=$folder/venv place=/opt/nemo_rl_venv ;;
  nemo-rl-cuda)
    nvidia-smi -L >/dev/null 2>&1 || { echo "learn: SKIPPED: needs an NVIDIA GPU: nvidia-smi finds none here" >&2; exit 3; }
    if [ -d /opt/nemo-rl ] && [ -d /opt/nemo_rl_venv ]; then
      echo "using the image's NeMo RL"
      exit 0
    fi
    version=0.7.0 requirements=$example/requirements-cuda.txt venv=$folder/venv-cuda place=/opt/nemo_rl_venv ;;
  verl-cpu) version=0.9.1 requirements=$example/requirements-verl.txt venv=$folder/venv-verl place=/opt/verl_venv ;;
  *) echo "learn: FRAMEWORK is ${FRAMEWORK:-nemo-rl} and DEVICE ${DEVICE:-cpu}, expected nemo-rl with cpu or cuda, or verl with cpu" >&2; exit 2 ;;
esac

nemo_rl() { # the source of NeMo RL, as .tools/learn/source
  if [ -n "${SOURCES:-}" ]; then
    ln -sfn "$(realpath -- "$SOURCES")" "$folder/source"
  elif [ ! -d "$folder/source" ]; then
    rm -rf "$folder/source" "$folder/clone"
    git -c advice.detachedHead=false clone --quiet --depth 1 --branch "v$version" "$address" "$folder/clone" ||
      { echo "learn: SKIPPED: cannot clone NeMo RL v$version; give SOURCES=DIR, a folder with the tree of this tag" >&2; exit 3; }
    ln -sfn clone "$folder/source"
  fi
  found=$(cat "$folder/source/nemo_rl/package_info.py" 2>/dev/null || true)
  found=$(sed -nE 's/^(MAJOR|MINOR|PATCH) *= *([0-9]+).*/\2/p' <<<"$found" | paste -sd.)
  [ "$found" = "$version" ] ||
    { echo "learn: SKIPPED: $(realpath "$folder/source") has NeMo RL ${found:-not at all}, expected $version; set SOURCES" >&2; exit 3; }
}

code=$example/requirements-verl-code.txt
[ "$venv" = "$folder/venv-verl" ] || { nemo_rl; code=/dev/null; }
stamp=$(cat "$requirements" "$code" | sha256sum)
if [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "up to date: ${FRAMEWORK:-nemo-rl} $version and its libraries"
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 14))' ||
  { echo "learn: SKIPPED: needs Python 3.12 or 3.13; set PYTHON" >&2; exit 3; }
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
if [ "$code" = /dev/null ]; then
  # As in the image, NeMo RL is installed from a folder at this path.
  for packages in "$venv"/lib/python*/site-packages; do echo /opt/nemo-rl >"$packages/nemo-rl.pth"; done
else
  rm -rf "$folder/wheels"
  # By its metadata verl does not run with Python 3.13.
  "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --ignore-requires-python --only-binary :all: \
    --dest "$folder/wheels" --requirement "$code"
fi
# In the image the environment lies at this path, and `make learn` shows it there.
grep -rlI --max-count=1 '^#!.*/venv[^/]*/bin/python' "$venv/bin" | xargs sed -i "1s|^#!.*/venv[^/]*/bin/python.*|#!$place/bin/python|"
echo "$stamp" >"$venv/.stamp"
echo "installed: ${FRAMEWORK:-nemo-rl} $version and its libraries"
