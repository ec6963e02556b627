#!/usr/bin/env bash
# Make .tools/learn for `make learn`: NeMo RL's source at the pinned tag, and a virtual environment in which it runs on a CPU.
# usage: tools/learn.sh     SOURCES=DIR: a folder with the tag's tree, instead of a clone. PYTHON=python3.12 by default python3.13.
# DEVICE=cuda: the environment for a GPU, with vLLM; nothing is made in NeMo RL's image, which has all.
# The CPU build of torch does: where the index serves the CUDA build, set PIP_EXTRA_INDEX_URL or PIP_INDEX_URL to one with CPU wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.7.0
address=https://github.com/NVIDIA-NeMo/RL.git
folder=.tools/learn
python=${PYTHON:-python3.13}
mkdir -p "$folder"
case ${DEVICE:-cpu} in
  cpu) requirements=examples/learn-on-cpu/requirements.txt venv=$folder/venv ;;
  cuda)
    nvidia-smi -L >/dev/null 2>&1 || { echo "learn: SKIPPED: needs an NVIDIA GPU: nvidia-smi finds none here" >&2; exit 3; }
    if [ -d /opt/nemo-rl ] && [ -d /opt/nemo_rl_venv ]; then
      echo "using the image's NeMo RL"
      exit 0
    fi
    requirements=examples/learn-on-cpu/requirements-cuda.txt venv=$folder/venv-cuda ;;
  *) echo "learn: DEVICE is $DEVICE, expected cpu or cuda" >&2; exit 2 ;;
esac

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

stamp=$(sha256sum <"$requirements")
if [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "up to date: NeMo RL $version and its libraries"
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 14))' ||
  { echo "learn: SKIPPED: needs Python 3.12 or 3.13; set PYTHON" >&2; exit 3; }
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
# As in the image, NeMo RL is installed from a folder at this path.
for packages in "$venv"/lib/python*/site-packages; do echo /opt/nemo-rl >"$packages/nemo-rl.pth"; done
# In the image the environment lies at this path, and `make learn` shows it there.
grep -rlI --max-count=1 '^#!.*/venv[^/]*/bin/python' "$venv/bin" | xargs sed -i '1s|^#!.*/venv[^/]*/bin/python.*|#!/opt/nemo_rl_venv/bin/python|'
echo "$stamp" >"$venv/.stamp"
echo "installed: NeMo RL $version and its libraries"
