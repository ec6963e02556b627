"""Merge values as Helm merges `-f` files, and remember which line of which file set each leaf."""

from __future__ import annotations

from postrender.overlays import profile_name, without_nulls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postrender.errors import Location
    from postrender.plain import Plain
    from postrender.yamlio import Node

    Path = tuple[str | int, ...]


def _overlay_nodes(under: Node, over: Node) -> Node:
    """Merge as `overlays.overlay` does; a merged map has the place of the later file, the one that a user edits."""
    from postrender.yamlio import Node

    if not isinstance(under.value, dict) or not isinstance(over.value, dict):
        return over
    entries = dict(under.value)
    for key, node in over.value.items():
        entries[key] = _overlay_nodes(entries[key], node) if key in entries else node
    return Node(entries, over.at, over.key_at, over.spelled)


class Values:
    """Hold the merged values of several files, in order; later files win.

    `root` has the places; `files` are the names as they were given.
    """

    def __init__(self, root: Node, files: Sequence[str]) -> None:
        self.root = root
        self.files = list(files)

    def node(self, path: Path) -> Node | None:
        """Return the node at a path of keys and list positions, or None."""
        node: Node | None = self.root
        for part in path:
            value = node.value if node else None
            if isinstance(value, dict):
                node = value.get(str(part))
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                node = value[part]
            else:
                return None
        return node

    def at(self, path: Path) -> Location:
        """Return the place of the key at a path, or of the nearest map above that is in a file."""
        while path:
            node = self.node(path)
            if node:
                return node.key_at
            path = path[:-1]
        return self.root.at

    def get(self, path: str, default: Plain = None) -> Plain:
        """Return the plain value at a dotted path, such as `ray.workers.replicas`, or the default."""
        node = self.node(tuple(path.split(".")))
        return node.plain() if node else default

    def as_helm_merges(self) -> dict[str, Any]:
        """Return the merged tree with every null kept, as Helm hands it to the chart."""
        tree: dict[str, Any] = self.root.plain()
        return tree

    def effective(self) -> dict[str, Any]:
        """Return the merged tree without the entries that a null deletes; below job.config a null is a value."""
        tree: dict[str, Any] = without_nulls(self.as_helm_merges())
        return tree


def load(files: Sequence[str]) -> Values:
    """Read and merge values files in order; raise InputError or UnreadableError for the first that is wrong."""
    from postrender.yamlio import load_values

    return merge([load_values(file) for file in files], files)


def merge(roots: Sequence[Node], files: Sequence[str]) -> Values:
    """Merge documents that are read already; `files` are their names, at least one of each."""
    merged = roots[0]
    for root in roots[1:]:
        merged = _overlay_nodes(merged, root)
    _refuse_two_profiles([Values(root, [file]) for root, file in zip(roots, files, strict=True)])
    return Values(merged, files)


def _refuse_two_profiles(each: Sequence[Values]) -> None:
    """Raise InputError where two files name different accelerators: the merge would be a mixture of two machines."""
    named = [one for one in each if profile_name(one.as_helm_merges())]
    for other in named[1:]:
        first, name = profile_name(named[0].as_helm_merges()), profile_name(other.as_helm_merges())
        if first != name:
            from postrender.errors import InputError

            raise InputError(
                f"a second accelerator profile: {named[0].files[0]} is for {first}, this file for {name}",
                at=other.at(("accelerator", "name")),
                fix="give one profile only, by -f or by --accelerator",
            )
