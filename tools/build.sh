#!/usr/bin/env bash
# Build the pinned command-line tools and the control plane into .tools/ (git-ignored).
# usage: tools/build.sh [NAME…]     NAME: helm3 helm4 kubeconform kustomize actionlint etcd kwok kubernetes kuberay kuberay-1.5 kuberay-chart kuberay-validate jobset kueue gke-crds (default: these)
#       kubelet containerd runc cni-plugins coredns kube-router dranet: for real nodes, see tools/node.sh
#
# Each folder under tools/go is a Go module of its own that pins one program: `go install` refuses modules with
# `replace` directives and modules whose version list the proxy does not serve. go.sum pins every dependency by digest.
# tests/e2e/tools holds programs of our own that are made of the same modules.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")"
root=$(cd .. && pwd)
bin="$root/.tools/bin"
share="$root/.tools/share"
mkdir -p "$bin" "$share"
export CGO_ENABLED=0 GOFLAGS="-trimpath -mod=mod -modcacherw ${GOFLAGS:-}"
command -v go >/dev/null || { echo "tools/build.sh: needs Go 1.26 or newer on PATH (https://go.dev/dl)" >&2; exit 3; }

version_of() { (cd "go/$1" && go list -m -f '{{.Version}}' "$2"); }
module_dir() { (cd "go/$1" && go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); }

# build FOLDER BINARY PACKAGE [LDFLAGS]: skipped while the module's own files are those that the binary was built from.
build() {
  local folder=$1 binary=$2 package=$3 ldflags=${4:-} stamp mark
  stamp=$(cat "go/$folder"/*.{mod,sum,go} build.sh | sha256sum | cut -d' ' -f1)
  mark="$bin/.${binary//\//-}.stamp"
  if [ -x "$bin/$binary" ] && [ "$(cat "$mark" 2>/dev/null)" = "$stamp" ]; then
    echo "up to date: $binary"
    return
  fi
  echo "building $binary"
  (cd "go/$folder" && go build -ldflags "-s -w $ldflags" -o "$bin/$binary" "$package")
  echo "$stamp" >"$mark"
}

# copy_folder FOLDER MODULE SUBDIR NAME: a folder that travels inside a module.
copy_folder() {
  local dir
  dir=$(module_dir "$1" "$2")
  [ -d "$dir/$3" ] || { echo "tools/build.sh: no $3 in module $2" >&2; exit 3; }
  rm -rf "${share:?}/$4"
  mkdir -p "$share/$4"
  cp -r "$dir/$3/." "$share/$4/"
  chmod -R u+w "$share/$4"
}

tool_helm3() { local v; v=$(version_of helm3 helm.sh/helm/v3); build helm3 helm3 helm.sh/helm/v3/cmd/helm "-X helm.sh/helm/v3/internal/version.version=$v"; }
tool_helm4() { local v; v=$(version_of helm4 helm.sh/helm/v4); build helm4 helm4 helm.sh/helm/v4/cmd/helm "-X helm.sh/helm/v4/internal/version.version=$v"; }
tool_kubeconform() { build kubeconform kubeconform github.com/yannh/kubeconform/cmd/kubeconform; }
tool_kustomize() { build kustomize kustomize sigs.k8s.io/kustomize/kustomize/v5; }
tool_actionlint() { build actionlint actionlint github.com/rhysd/actionlint/cmd/actionlint; }
tool_etcd() { build etcd etcd go.etcd.io/etcd/server/v3; }
tool_kwok() {
  build kwok kwok sigs.k8s.io/kwok/cmd/kwok
  local dir; dir=$(module_dir kwok sigs.k8s.io/kwok)
  rm -rf "$share/kwok-stages" && mkdir -p "$share/kwok-stages" && cp -r "$dir/kustomize/stage/." "$share/kwok-stages/" && chmod -R u+w "$share/kwok-stages"
}
tool_kuberay() {
  build kuberay ray-operator github.com/ray-project/kuberay/ray-operator
  copy_folder kuberay github.com/ray-project/kuberay/ray-operator config/crd/bases kuberay-crds
}
tool_kuberay-1.5() { copy_folder kuberay-1.5 github.com/ray-project/kuberay/ray-operator config/crd/bases kuberay-1.5-crds; }
tool_kuberay-validate() { build ../../tests/e2e/tools/kuberay-validate kuberay-validate .; }
tool_kuberay-chart() {
  copy_folder kuberay-chart github.com/ray-project/kuberay helm-chart/ray-cluster kuberay-ray-cluster
  copy_folder kuberay-chart github.com/ray-project/kuberay helm-chart/kuberay-operator kuberay-operator
}
tool_jobset() { copy_folder jobset sigs.k8s.io/jobset config/components/crd/bases jobset-crds; }
tool_kueue() {
  build kueue kueue sigs.k8s.io/kueue/cmd/kueue
  copy_folder kueue sigs.k8s.io/kueue config/components/crd/bases kueue-crds
  copy_folder kueue sigs.k8s.io/kueue config/components/webhook kueue-webhooks
}
tool_containerd() {
  local c
  for c in containerd containerd-shim-runc-v2 ctr; do
    GOFLAGS="$GOFLAGS -tags=no_btrfs" build containerd "$c" "github.com/containerd/containerd/v2/cmd/$c"
  done
}
tool_runc() {
  # It enters namespaces by C code, before Go starts threads; the profile of pods needs libseccomp-dev.
  GOFLAGS="$GOFLAGS -tags=seccomp" CGO_ENABLED=1 build runc runc github.com/opencontainers/runc
}
tool_cni-plugins() {
  mkdir -p "$bin/cni"
  build cni-plugins cni/ptp github.com/containernetworking/plugins/plugins/main/ptp
  build cni-plugins cni/loopback github.com/containernetworking/plugins/plugins/main/loopback
  build cni-plugins cni/host-local github.com/containernetworking/plugins/plugins/ipam/host-local
}
tool_coredns() { build coredns coredns github.com/coredns/coredns; }
tool_kube-router() { build kube-router kube-router github.com/cloudnativelabs/kube-router/v2/cmd/kube-router; }
tool_dranet() { build dranet dranet sigs.k8s.io/dranet/cmd/dranet; }
tool_gke-crds() { copy_folder gke-crds github.com/GoogleCloudPlatform/gke-networking-api config/crds gke-crds; }
kubernetes() {
  # Without the version flags /version says v0.0.0-master and charts with kubeVersion fail.
  local v minor flags="" p c
  v=$(version_of kubernetes k8s.io/kubernetes)
  minor=$(echo "$v" | cut -d. -f2)
  for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags="$flags -X $p.gitVersion=$v -X $p.gitMajor=1 -X $p.gitMinor=$minor -X $p.gitTreeState=clean"
  done
  for c in "$@"; do build kubernetes "$c" "k8s.io/kubernetes/cmd/$c" "$flags"; done
}
tool_kubernetes() { kubernetes kubectl kube-scheduler kube-controller-manager kube-apiserver; }
tool_kubelet() { kubernetes kubelet kube-proxy; }

for name in "${@:-helm4 helm3 kubeconform kustomize actionlint gke-crds kuberay kuberay-1.5 kuberay-chart kuberay-validate jobset kueue etcd kwok kubernetes}"; do
  for one in $name; do
    declare -F "tool_$one" >/dev/null || { echo "tools/build.sh: no tool called $one" >&2; exit 2; }
    "tool_$one"
  done
done
