"""Run the pods of Helm's hooks as processes, and tell the API server how they ended; kwok only keeps them Running."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness import containers
from harness.kube import Kube, Manifest
from harness.resolver import DOMAIN
from harness.waiting import until

Plan = dict[str, Any]


def files_of(kube: Kube, config_map: str, namespace: str, work: Path) -> Path:
    """Write the entries of a ConfigMap into a folder, as a kubelet does; there are none without the ConfigMap."""
    folder = work / "config-maps" / namespace / config_map
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, text in (kube.find("configmap", config_map, namespace) or {"data": {}})["data"].items():
        (folder / name).write_text(text)
    return folder


def with_whole_name(plan: Plan, namespace: str) -> Plan:
    """Return a plan whose address the hosts file here knows; a pod's resolver searches its own namespace."""
    service, port = plan["address"].split(":")
    return {**plan, "address": f"{service}.{namespace}.{DOMAIN}:{port}"}


def run(kube: Kube, pod: Manifest, work: Path, shown: dict[str, Path], edit: Callable[[Plan], Plan]) -> str:
    """Run the program of a pod to its end and return its output; its last argument is a plan."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    container = pod["spec"]["containers"][0]
    plan = edit(with_whole_name(json.loads(container["args"][-1]), namespace))
    container["args"] = [*container["args"][:-1], json.dumps(plan)]
    done = containers.run(containers.prepare(kube, pod, container, work, shown=shown), 60)
    status = json.dumps({"status": {"phase": "Failed" if done.returncode else "Succeeded"}})
    kube.run("patch", "pod", name, "--namespace", namespace, "--subresource=status", "--type=merge", "-p", status)
    return done.stdout + done.stderr


def while_helm(kube: Kube, cluster: str, namespace: str, work: Path, helm: Callable[[], object]) -> list[str]:
    """Run Helm, and beside it every pod that asks whether the cluster is idle; return what these said.

    Raises the error of Helm, with what the pods said.
    """
    said: list[str] = []
    seen: set[str] = set()

    def next_pod(ended: Future[object]) -> Manifest | bool | None:
        pod = kube.find("pod", f"{cluster}-idle-check", namespace)
        if pod and pod["metadata"]["uid"] not in seen and pod["status"].get("phase") == "Running":
            return pod
        return ended.done() or None

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(helm)
        while isinstance(pod := until(lambda: next_pod(ended), "Helm or its hook", seconds=120), dict):
            seen.add(pod["metadata"]["uid"])
            maps = {f"/{each['name']}": each["configMap"]["name"] for each in pod["spec"]["volumes"]}
            shown = {path: files_of(kube, name, namespace, work) for path, name in maps.items()}
            said.append(run(kube, pod, work, shown, lambda plan: plan))
        if error := ended.exception():
            error.add_note("\n".join(said))
            raise error
    return said
