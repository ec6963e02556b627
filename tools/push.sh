#!/usr/bin/env bash
# Push one chart package to an OCI registry, and print the name and the digest under which it lies there.
# usage: tools/push.sh ARCHIVE REPOSITORY [FLAG…]     tools/push.sh dist/network-0.1.0.tgz ghcr.io/OWNER/charts
# HELM names the helm executable; flags go to helm (--plain-http). The registry's login is Helm's own.
set -euo pipefail
archive=${1:?which package}
repository=${2:?which repository, such as ghcr.io/OWNER/charts}
shift 2
helm=${HELM:-helm}
chart=$("$helm" show chart "$archive")
name=$(sed -n 's/^name: //p' <<<"$chart")
version=$(sed -n 's/^version: //p' <<<"$chart")
# A registry would replace it without a word, and who has pinned the version would get other content.
if "$helm" show chart "oci://$repository/$name" --version "$version" "$@" >/dev/null 2>&1; then
  echo "tools/push.sh: $repository/$name:$version is published already: raise the version" >&2
  exit 1
fi
answer=$("$helm" push "$archive" "oci://$repository" "$@" 2>&1) || { echo "$answer" >&2; exit 1; }
echo "$answer" >&2
digest=$(sed -n 's/^Digest: *//p' <<<"$answer")
[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "tools/push.sh: helm push has named no digest" >&2; exit 1; }
echo "name=$repository/$name"
echo "digest=$digest"
