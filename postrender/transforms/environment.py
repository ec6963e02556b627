"""Variables: the library path, secrets by reference, and NCCL's settings on a GPU node."""

from __future__ import annotations

from postrender.pods import sequence
from postrender.transforms import Target, put
from postrender.wiring import CHECK


def apply(target: Target, *, init_containers: bool = False) -> None:
    """Add the variables to the container, and the secrets to the init containers where that is asked for."""
    wiring, container = target.wiring, target.container
    wanted = wiring.secrets
    if target.libraries:
        wanted = [*wiring.libraries(target.image), *wanted]
    if target.whole:
        wanted = [*wanted, *wiring.nccl]
    _add(target, container, target.container_place("env"), wanted)
    if init_containers:
        for at, each in enumerate(sequence(target.pod.spec.get("initContainers"))):
            # Ours needs no secret, and must look the same in a second run.
            if isinstance(each, dict) and each.get("name") != CHECK:
                place = target.place(f"spec.initContainers[{each.get('name', at)}].env")
                _add(target, each, place, wiring.secrets)


def _add(target: Target, container: dict[str, object], place: str, wanted: list[dict[str, object]]) -> None:
    put(container, "env", target.decisions.named(place, sequence(container.get("env")), wanted))
