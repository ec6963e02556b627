#!/usr/bin/env bash
# Install AWS's userspace for EFA into an image of Ubuntu: install_efa.sh VERSION SHA256. The driver is the node's.
set -euo pipefail
version=$1
digest=$2
export DEBIAN_FRONTEND=noninteractive

# NVIDIA's base images hold parts of older versions. The packages do not agree with the files that are left, so the
# installer refuses to upgrade them. And of two plugins the search order would choose one.
mapfile -t old < <(
  dpkg-query --show --showformat '${Package}\n' |
    grep --extended-regexp '^(efa-|libfabric.*aws|libnccl-ofi|openmpi.*aws)' || true
)
if ((${#old[@]} > 0)); then
  dpkg --purge --force-all "${old[@]}"
fi
rm -rf /opt/amazon/efa /opt/amazon/ofi-nccl /opt/amazon/aws-ofi-nccl

folder=$(mktemp --directory)
archive=$folder/aws-efa-installer-$version.tar.gz
curl --fail --location --retry 5 --silent --show-error --output "$archive" \
  "https://efa-installer.amazonaws.com/aws-efa-installer-$version.tar.gz"
echo "$digest  $archive" | sha256sum --check --strict
tar --extract --file "$archive" --directory "$folder"

# --no-verify leaves out a test that needs a device, --skip-mpi an MPI that Ray does not need. The last two options:
# the installer takes every image with NVIDIA's entrypoint for one of NVIDIA's build, and leaves out rdma-core, of
# which its libfabric needs a newer one than Ubuntu's.
apt-get update
(
  cd "$folder/aws-efa-installer"
  ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify --skip-mpi --disable-ngc --disable-build-ngc
)
rm -rf "$folder" /var/lib/apt/lists/*

printf '%s\n' /opt/amazon/ofi-nccl/lib /opt/amazon/efa/lib > /etc/ld.so.conf.d/aws-efa.conf
ldconfig
