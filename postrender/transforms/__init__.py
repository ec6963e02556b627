"""One transform a module: each adds one part of the wiring to a pod template, in place, and knows nothing of text."""

from __future__ import annotations

from postrender.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postrender.decisions import Decisions
    from postrender.plain import Plain
    from postrender.pods import Pod
    from postrender.wiring import Wiring


class Target:
    """A pod template to wire, with its container; `owner` and `nodes` name the claims of devices.

    `whole` says that the pod takes a whole GPU node; any other pod gets variables only, with `libraries` the path of
    the driver's libraries too.
    """

    __slots__ = ("container", "decisions", "libraries", "nodes", "owner", "pod", "position", "whole", "wiring")

    def __init__(self, pod: Pod, position: int, wiring: Wiring, decisions: Decisions) -> None:
        self.pod = pod
        self.position = position
        self.container: dict[str, Any] = pod.containers()[position]
        self.wiring = wiring
        self.decisions = decisions
        self.whole = False
        self.libraries = False
        self.owner = ""
        self.nodes: int | None = None

    @property
    def image(self) -> str:
        """Return the image of the container, or an empty text."""
        return str(self.container.get("image", ""))

    def place(self, part: str) -> str:
        """Return a dotted path below the object, for reports."""
        return ".".join(map(str, (*self.pod.path, part)))

    def container_place(self, part: str) -> str:
        """Return a dotted path below the object to a part of the container."""
        return self.place(f"spec.containers[{self.container.get('name', self.position)}].{part}")


def put(holder: dict[str, Any], key: str, value: Plain) -> None:
    """Set a key, unless it would become an empty list or map that is not there now.

    Raises InputError where something of another kind stands there, which Kubernetes would refuse.
    """
    there = holder.get(key)
    if there and type(there) is not type(value):
        shape = "a list" if isinstance(value, list) else "a map"
        raise InputError(f"{key} must be {shape}, and is none", fix="correct the template")
    if value or there:
        holder[key] = value
