#!/usr/bin/env bash
# Build what real nodes run into .tools/bin, and what their pods run into .tools/node.
# usage: tools/node.sh     Needs root, Go, and the Debian packages debootstrap, gcc, libseccomp-dev and pkg-config.
#
# Below .tools/node:
# base/         Debian 12 with Python 3.11, from debootstrap
# ray-VERSION/  opt/nemo_rl_venv with that Ray, a layer over base
set -euo pipefail
cd "$(dirname "$0")/.."
# NeMo RL v0.6.0, v0.7.0 and v0.8.0.
versions=(2.54.0 2.55.1 2.58.0)
packages=python3,python3-venv,procps,ca-certificates,iproute2
node=$PWD/.tools/node
mkdir -p "$node"
for command in debootstrap gcc pkg-config; do
  command -v "$command" >/dev/null || { echo "tools/node.sh: needs $command (apt-get install $command)" >&2; exit 3; }
done
pkg-config --exists libseccomp || { echo "tools/node.sh: needs libseccomp (apt-get install libseccomp-dev)" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "tools/node.sh: debootstrap needs root" >&2; exit 3; }

tools/build.sh kubelet containerd runc cni-plugins coredns kube-router dranet

if [ "$(cat "$node/base.stamp" 2>/dev/null)" != "$packages" ]; then
  echo "making the Debian base"
  rm -rf "$node/base" "$node"/ray-*
  debootstrap --variant=minbase --include="$packages" bookworm "$node/base" >"$node/debootstrap.log"
  rm -rf "$node"/base/var/cache/apt/* "$node"/base/var/lib/apt/lists/* "$node"/base/usr/share/{doc,man,locale}
  echo "$packages" >"$node/base.stamp"
fi

for version in "${versions[@]}"; do
  layer=$node/ray-$version
  if [ -x "$layer/opt/nemo_rl_venv/bin/ray" ]; then
    echo "up to date: ray $version for pods"
    continue
  fi
  echo "installing ray $version for pods"
  rm -rf "$layer" "$node/base/wheels" "$node/base/opt/nemo_rl_venv"
  # Outside of the base: inside there is no network configuration. Debian 12 has Python 3.11.
  python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version 3.11 \
    --dest "$node/base/wheels" "ray[default]==$version"
  chroot "$node/base" python3 -m venv /opt/nemo_rl_venv
  chroot "$node/base" /opt/nemo_rl_venv/bin/pip install --quiet --no-index --find-links /wheels "ray[default]==$version"
  mkdir -p "$layer/opt"
  mv "$node/base/opt/nemo_rl_venv" "$layer/opt/"
  rm -rf "$node/base/wheels"
done
