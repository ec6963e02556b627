#!/usr/bin/env bash
# Build the wheel of the compiled reader for this machine into a folder, and read a text with it: tools/reader.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# == 1 ]] || { echo "usage: tools/reader.sh FOLDER" >&2; exit 2; }

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
python3 -m venv "$own"
PATH=$own/bin:$PATH
pip install --quiet --disable-pip-version-check 'maturin==1.16.0' 'ziglang==0.17.1'

options=()
if [[ $(uname) == Linux ]]; then
  # Linked by zig it needs glibc 2.17 only, whatever this machine has.
  options=(--zig --compatibility manylinux2014)
fi
maturin build --release --locked "${options[@]}" --manifest-path reader/Cargo.toml --out "$1"

pip install --quiet --disable-pip-version-check --no-index --find-links "$1" grpo-reader
read=$(python -c 'import grpo_reader; print(grpo_reader.read("a: [1, yes]\n"), grpo_reader.locate("a: 1\n")[1].end)')
[[ $read == "{'a': [1, True]} 4" ]] || { echo "tools/reader.sh: it reads $read" >&2; exit 1; }
ls "$1"
