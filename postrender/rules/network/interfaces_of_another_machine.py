"""A GPU pod's list of interfaces must be that of the machine."""

from __future__ import annotations

from postrender.pods import mapping
from postrender.rules import ERROR, Hit, Manifests, Rule, at
from postrender.wiring import INTERFACES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def check(manifests: Manifests) -> Iterator[Hit]:
    """Compare the annotation with the interfaces of the values."""
    for item, pod, wiring in manifests.whole_pods():
        annotations = mapping(mapping(pod.template.get("metadata")).get("annotations"))
        text, wanted = annotations.get(INTERFACES), wiring.annotations.get(INTERFACES)
        if text == wanted:
            continue
        where = ("metadata", "annotations", INTERFACES)
        if text is None:
            yield at(item, (*pod.path, "metadata"), f"the pod has no annotation {INTERFACES}, and gets eth0 alone")
        elif wanted is None:
            yield at(item, (*pod.path, *where), f"{INTERFACES} is set, and network.mode is {wiring.mode}")
        else:
            there, needed = _interfaces(text), _interfaces(wanted)
            if there is None:
                yield at(item, (*pod.path, *where), f"{INTERFACES} is no JSON list of interfaces")
            elif there != needed:
                yield at(item, (*pod.path, *where), f"{INTERFACES}: {_difference(there, needed or {})}")


def _interfaces(text: object) -> dict[str, str] | None:
    import json

    try:
        return {str(each["interfaceName"]): str(each["network"]) for each in json.loads(str(text))}
    except (ValueError, LookupError, TypeError):
        return None


def _difference(there: dict[str, str], needed: dict[str, str]) -> str:
    missing = sorted(needed.keys() - there.keys())
    extra = sorted(there.keys() - needed.keys())
    others = sorted(name for name in needed.keys() & there.keys() if needed[name] != there[name])
    parts = [
        f"{', '.join(names)} {word}" for names, word in ((missing, "missing"), (extra, "not of this machine")) if names
    ]
    parts += [f"{name} joins {there[name]} and not {needed[name]}" for name in others]
    return f"{len(there)} interfaces, the machine has {len(needed)}: {'; '.join(parts)}"


RULE = Rule(
    "network/interfaces-of-another-machine",
    severity=ERROR,
    title="a GPU pod's interfaces are not those of its machine",
    why="NCCL uses the interfaces that it finds: with fewer it is slow, with another machine's the pod does not start",
    fix="let the post-renderer write the annotation, or give the values of the machine that the pod runs on",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
