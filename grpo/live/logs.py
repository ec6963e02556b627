"""Read the last lines of a run's programs: the driver, terminated containers, and the operator."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import is_ready, labels_of, name_of
from grpo.live.client import Cluster, RefusedError
from postrender import masking
from postrender.manifests.pods import mapping, sequence

# The end of each log.
_BYTES: Final = 256 << 10
_LINES: Final = 3000
# Containers whose logs are read; more of them say the same.
_MOST: Final = 8
_MARK: Final = "==> "
# The last attempt's output, and from the last evidence of the guard what explains the end of a process.
_SHOW: Final = """
cd {folder} 2>/dev/null || exit 0
last=$(ls attempts 2>/dev/null | sort -n | tail -n 1)
[ -n "$last" ] || exit 0
proof=$(ls -d attempts/$last/evidence/*/ 2>/dev/null | tail -n 1)
for file in attempts/$last/output.log "$proof"ray-deaths.txt "$proof"nccl.txt "$proof"*/memory.txt; do
  [ -f "$file" ] && printf '\\n{mark}%s\\n' "$file" && tail -c {size} "$file"
done
true
"""

Logs = dict[str, str]


def head_of(evidence: Evidence) -> str:
    """Return the name of the head pod that can be queried, or an empty text."""
    heads = [pod for pod in evidence.of("pods") if labels_of(pod).get("ray.io/node-type") == "head" and is_ready(pod)]
    # A task beside the run may have a cluster of its own.
    own = [pod for pod in heads if labels_of(pod).get("ray.io/cluster") == evidence.cluster]
    return name_of((own or heads)[0]) if heads else ""


def calls(cluster: Cluster, evidence: Evidence) -> dict[str, Callable[[], Logs]]:
    """Return the queries: each call returns logs by name, and raises RefusedError if they cannot be read."""
    found: dict[str, Callable[[], Logs]] = {}
    head, folder = head_of(evidence), evidence.expected.run_directory
    if folder and head:
        found["output.log"] = lambda: _of_run(cluster, head, folder)
    elif folder:
        evidence.unread["output.log"] = "there is no head pod that is ready"
    for pod, container, previous in list(_ended(evidence))[:_MOST]:
        name = f"pod {pod}, container {container}"
        found[name] = lambda pod=pod, container=container, previous=previous, name=name: {  # type: ignore[misc]
            name: cluster.log(evidence.expected.namespace, pod, container, _BYTES, _LINES, previous=previous)
        }
    found["operator"] = lambda: _of_operator(cluster, evidence)
    return found


def program(folder: str) -> str:
    """Return the shell program that prints the contents of the run's folder; it only reads."""
    return _SHOW.format(folder=shlex.quote(folder), mark=_MARK, size=_BYTES)


def _of_run(cluster: Cluster, head: str, folder: str) -> Logs:
    text = cluster.execute(head, "ray-head", ["sh", "-c", program(folder)])
    parts = text.split(f"\n{_MARK}")[1:]
    return {name.strip(): rest for name, _, rest in (part.partition("\n") for part in parts)}


def _ended(evidence: Evidence) -> Iterator[tuple[str, str, bool]]:
    """Yield the containers that have ended with an error, and whether they were restarted."""
    for pod in evidence.of("pods"):
        status = mapping(pod.get("status"))
        for key in ("initContainerStatuses", "containerStatuses"):
            for each in map(mapping, sequence(status.get(key))):
                now, before = (mapping(mapping(each.get(key)).get("terminated")) for key in ("state", "lastState"))
                if now.get("exitCode") or before.get("exitCode"):
                    yield name_of(pod), str(each.get("name")), not now.get("exitCode")


def _of_operator(cluster: Cluster, evidence: Evidence) -> Logs:
    """Return the operator's log lines that name objects of this stack."""
    selector = "app.kubernetes.io/name=kuberay-operator"
    names = [each for each in (evidence.expected.job, evidence.expected.cluster) if each]
    found: list[str] = []
    for pod in cluster.items("/api/v1/pods", labelSelector=selector)[:2]:
        where = str(mapping(pod.get("metadata")).get("namespace"))
        container = str(_first_container(pod).get("name", ""))
        text = cluster.log(where, name_of(pod), container, 8 * _BYTES, _LINES)
        found += [line for line in text.splitlines() if any(name in line for name in names)]
    return {"operator": "\n".join(found)[-_BYTES:]} if found else {}


def _first_container(pod: dict[str, Any]) -> dict[str, Any]:
    return mapping(next(iter(sequence(mapping(pod.get("spec")).get("containers"))), None))


def take(evidence: Evidence, name: str, answer: Logs | RefusedError) -> None:
    """Store logs without their secrets, or the reason why they could not be read."""
    if isinstance(answer, RefusedError):
        evidence.unread[name] = masking.text(str(answer))
    else:
        evidence.logs.update({each: masking.text(text) for each, text in answer.items()})
