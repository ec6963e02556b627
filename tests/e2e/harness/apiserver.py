"""etcd and an API server on the loopback interface, with the kinds that other programs bring.

The namespace belongs to one run alone, so every program can listen on a fixed port.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.kube import Kube
from harness.processes import Program, Programs
from harness.waiting import until

# An administrator whose requests are logged.
AUDITED = "audited"
AUDIT_LOG = "audit.log"
# Prints True or False for each definition, False also for one without conditions yet.
ESTABLISHED = """go-template={{range .items}}{{$ok := "False"}}{{range .status.conditions}}\
{{if eq .type "Established"}}{{$ok = .status}}{{end}}{{end}}{{$ok}} {{end}}"""


@dataclass(frozen=True)
class Tools:
    """Where `make tools` puts programs (`bin`) and the manifests that travel with them (`share`)."""

    bin: Path
    share: Path


@dataclass(frozen=True)
class Ports:
    """Where one API server listens, and its etcd on the loopback interface."""

    address: str = "127.0.0.1"
    api: int = 6443
    etcd: int = 2379
    peer: int = 2380


class ApiServer:
    """One API server with a store of its own; the caller's `programs` stops it, etcd last."""

    def __init__(self, work: Path, tools: Tools, programs: Programs, ports: Ports, flags: Sequence[str] = ()) -> None:
        self.work = work
        self.flags = flags
        self.tools = tools
        self.programs = programs
        self.ports = ports
        self.kubeconfig = work / "kubeconfig"
        self.audited = work / "audited.kubeconfig"
        self.kube = Kube(tools.bin / "kubectl", self.kubeconfig)
        self.api: Program | None = None

    def start(self) -> None:
        """Start both and return when the API server is ready.

        Raises RuntimeError with a program's last log lines, AssertionError when it does not become ready.
        """
        pki = self.work / "pki"
        pki.mkdir(parents=True)
        subprocess.run(["openssl", "genrsa", "-out", pki / "sa.key", "2048"], check=True, capture_output=True)
        users = {"admin": self.kubeconfig, AUDITED: self.audited}
        tokens = {name: secrets.token_hex(16) for name in users}
        (pki / "tokens.csv").write_text("".join(f"{tokens[name]},{name},{name},system:masters\n" for name in users))
        (pki / "audit.json").write_text(json.dumps(audit_policy()))
        self.start_tool("etcd", *etcd_flags(self.work / "etcd", self.ports))
        for name, path in users.items():
            path.write_text(json.dumps(kubeconfig(self.ports, pki / "apiserver.crt", tokens[name])))
            path.chmod(0o600)
        self.serve()

    def serve(self) -> None:
        """Start the API server on its store and return when it is ready; a test that has ended it may do so again."""
        self.api = self.start_tool("kube-apiserver", *api_server_flags(self.work / "pki", self.ports), *self.flags)
        self.wait("API server ready", lambda: self.kube.raw("/readyz") == "ok")

    def requests(self) -> list[dict[str, Any]]:
        """Return what the audited user has asked so far, one entry of the audit log for each answer."""
        log = self.work / "pki" / AUDIT_LOG
        entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [entry for entry in entries if entry["user"]["username"] == AUDITED]

    def apply_crds(self, *paths: str) -> None:
        """Apply the definitions in files or folders of `tools.share` and wait until they are served."""
        for path in paths:
            self.kube.run("apply", "--server-side", "-f", str(self.tools.share / path))
        # `kubectl wait` fails on a CRD that has no conditions yet; whole definitions are megabytes.
        self.wait("CRDs established", lambda: "False" not in self.kube.run("get", "crds", "-o", ESTABLISHED))

    def start_tool(self, name: str, *flags: str | Path, **env: str) -> Program:
        """Start one of the programs that `make tools` has built."""
        return self.programs.start(name, [self.tools.bin / name, *flags], **env)

    def wait(self, what: str, probe: Callable[[], bool]) -> None:
        """Wait until `probe` is true; raise RuntimeError when one of the programs ends meanwhile."""

        def ready() -> bool:
            self.programs.check()
            return probe()

        until(ready, what, seconds=60, every=0.1)


def etcd_flags(data: Path, ports: Ports) -> list[str]:
    """Give etcd its loopback addresses; durability is of no use to a test."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.peer}"
    urls = {"listen-client": client, "advertise-client": client, "listen-peer": peer, "initial-advertise-peer": peer}
    addresses = [f"--{name}-urls={url}" for name, url in urls.items()]
    return [*addresses, f"--initial-cluster=default={peer}", f"--data-dir={data}", "--unsafe-no-fsync"]


def audit_policy() -> dict[str, object]:
    """Log the requests of one user, and what is answered about Secrets."""
    secret = {"level": "RequestResponse", "users": [AUDITED], "resources": [{"group": "", "resources": ["secrets"]}]}
    rules = [secret, {"level": "Metadata", "users": [AUDITED]}, {"level": "None"}]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}


def api_server_flags(pki: Path, ports: Ports) -> list[str]:
    """Switch on what a real cluster has: RBAC, Pod Security (a default) and the admission plugin that GKE adds."""
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        f"--bind-address={ports.address}",
        f"--advertise-address={ports.address}",
        f"--secure-port={ports.api}",
        f"--cert-dir={pki}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.key'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--audit-policy-file={pki / 'audit.json'}",
        f"--audit-log-path={pki / AUDIT_LOG}",
        "--enable-admission-plugins=ExtendedResourceToleration",
        "--allow-privileged=true",
        # The service `kubernetes` cannot lead to a loopback address.
        f"--endpoint-reconciler-type={'none' if ports.address.startswith('127.') else 'lease'}",
        # Logs and exec: the names of nodes do not resolve here.
        "--kubelet-preferred-address-types=InternalIP",
    ]


def kubeconfig(ports: Ports, authority: Path, token: str) -> dict[str, object]:
    """Describe the connection of the administrator."""
    server = f"https://{ports.address}:{ports.api}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
    }
