"""Measure `grpo check` of manifests against kubernetes-validate and kubeconform on the same streams, whole processes.

    python bench/check.py [ROUNDS | SIZE=ROUNDS ...]

SIZE is small (10 documents), medium (300, 1.1 MB) or large (3000, 20 MB); 0 rounds leave a size out. kubeconform is the
one of `make tools`; it gets the schemas of kubernetes-validate's bundle from a folder, each with the definitions that
it needs and nothing else, so that no network is in it. kubernetes-validate takes minutes for the large stream: it is
left out there. The ratios are medians of the rounds' ratios. All that the rivals judge is
structure; ours runs every rule about objects on top of it. What one of these finds in the streams, no shared memory, is
mended first: the rivals have nothing to tell either.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

# The folder of this file is on the path when it is run, and not when a test imports it.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import streams
import turns

OURS, VALIDATE, CONFORM = "grpo check", "kubernetes-validate", "kubeconform"
ROUNDS = {"small": 15, "medium": 7, "large": 5}
TARGETS = {("small", CONFORM): 1.0, ("medium", CONFORM): 1.0, ("large", CONFORM): 1.25}


def references(node: object) -> list[str]:
    """Return the names of the definitions that a schema refers to."""
    if isinstance(node, dict):
        own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
        return own + [name for each in node.values() for name in references(each)]
    return [name for each in node for name in references(each)] if isinstance(node, list) else []


def without_texts(node: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Return a schema without descriptions, which are most of it."""
    if isinstance(node, dict):
        return {k: without_texts(v) for k, v in node.items() if not (k == "description" and isinstance(v, str))}
    return [without_texts(each) for each in node] if isinstance(node, list) else node


def write_schemas(folder: Path) -> None:
    """Write a file for each kind of Kubernetes 1.35, as kubeconform looks for them."""
    bundle = files("kubernetes_validate") / "kubernetes-json-schema/v1.35.0-local-strict/_definitions.json"
    definitions = without_texts(json.loads(bundle.read_text("utf-8"))["$defs"])
    for name, node in definitions.items():
        properties = node.get("properties", {})
        if "apiVersion" not in properties or not properties.get("kind", {}).get("enum"):
            continue
        group, _, version = properties["apiVersion"]["enum"][0].rpartition("/")
        suffix = f"-{group.partition('.')[0]}-{version}" if group else f"-{version}"
        needed: dict[str, Any] = {}
        todo = [name]
        while todo:
            each = todo.pop()
            if each not in needed:
                needed[each] = definitions[each]
                todo += references(definitions[each])
        file = folder / f"{properties['kind']['enum'][0].lower()}{suffix}.json"
        file.write_text(json.dumps({"$ref": f"#/$defs/{name}", "$defs": needed}), encoding="utf-8")


def mended(data: bytes) -> bytes:
    """Mount shared memory into the pods that have GPUs."""
    mount = r"\1volumeMounts:\n\2- mountPath: /dev/shm\n\2  name: shm\n\2- mountPath: /tmp/ray\n"
    volume = r"\1volumes:\n\2- emptyDir: {medium: Memory, sizeLimit: 64Gi}\n\2  name: shm\n\2- emptyDir: {}\n"
    text = re.sub(r"(?m)^( *)volumeMounts:\n( *)- mountPath: /tmp/ray\n", mount, data.decode("utf-8"))
    return re.sub(r"(?m)^( *)volumes:\n( *)- emptyDir: \{\}\n", volume, text).encode("utf-8")


def commands(schemas: Path, stream: Path) -> dict[str, list[str]]:
    """Return the commands, each with its program's whole path."""
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    conform = [str(turns.tool("bin/kubeconform")), "-strict", "-ignore-missing-schemas", "-summary"]
    found = {
        OURS: [str(Path(sys.executable).parent / "grpo"), "check", str(stream)],
        CONFORM: [*conform, "-schema-location", location, str(stream)],
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    if stream.stem != "large":
        found[VALIDATE] = [sys.executable, "-m", "kubernetes_validate", "-k", "1.35", str(stream)]
    return found


def measure(size: str, rounds: int, folder: Path) -> None:
    """Print the medians and the ratios of one stream."""
    stream = folder / f"{size}.yaml"
    data = mended(streams.stream(size))
    stream.write_bytes(data)
    times = turns.measure(commands(folder, stream), rounds)
    print(f"{size}: {streams.SIZES[size][0]} documents, {len(data)} bytes, {rounds} interleaved rounds")
    for name, values in times.items():
        print(f"  {name:<20} {statistics.median(values):8.1f} ms{_ratio(size, name, times)}")


def _ratio(size: str, name: str, times: turns.Times) -> str:
    """Return what our run takes of a rival's, beside the target."""
    if (size, name) not in TARGETS:
        return ""
    found = turns.ratio(times[OURS], times[name])
    return f"   ours takes {found:.3f} of it{turns.verdict(found, TARGETS[size, name])}"


def main() -> int:
    """Measure what the command line asks for."""
    rounds = turns.rounds_of(ROUNDS)
    with tempfile.TemporaryDirectory() as name:
        write_schemas(Path(name))
        for size, number in rounds.items():
            if number:
                measure(size, number, Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
