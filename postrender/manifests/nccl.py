"""How NCCL reads its variables: lists of names, numbers, and the names of networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

NET: Final = "NCCL_NET"
PLUGIN: Final = "NCCL_NET_PLUGIN"
DISABLE: Final = "NCCL_IB_DISABLE"
DEVICES: Final = "NCCL_IB_HCA"
GLOO: Final = "GLOO_SOCKET_IFNAME"
INTERFACES: Final = ("NCCL_SOCKET_IFNAME", GLOO)
SOCKET: Final = "socket"
# NCCL has two nets of its own, and compares names without case. Others come with a plugin; NCCL_NET_PLUGIN lists the
# plugins to load, and an empty list is none (src/plugin/net.cc, initPluginLibsOnceFunc).
OWN: Final = frozenset({"ib", SOCKET})
# The nets of the plugins that are known, besides NCCL's own; those of aws-ofi-nccl have the name of its version.
OF_PLUGINS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(),
    "none": frozenset(),
    "ofi": frozenset({"libfabric", "aws libfabric"}),
}
# Nets that use devices of InfiniBand or RoCE: NCCL_IB_DISABLE switches them off, NCCL_IB_HCA chooses among the devices
# (src/transport/net_ib/init.cc). Google's plugin reads the variables of NCCL's own net; its script sets several.
VERBS: Final = frozenset({"ib", "gib"})


class Names(NamedTuple):
    """A list that selects names: by prefix, or exactly after `=`; with `^` all others (src/misc/utils.cc)."""

    names: tuple[str, ...]
    is_exact: bool
    excludes: bool

    @classmethod
    def of(cls, value: str) -> Names:
        """Read the value of a variable; a port after a colon does not matter."""
        rest = value.removeprefix("^")
        listed = rest.removeprefix("=").split(",")
        names = tuple(name for each in listed if (name := each.partition(":")[0]))
        return cls(names, is_exact=rest.startswith("="), excludes=value.startswith("^"))

    def selects(self, name: str) -> bool:
        """Return whether one name is selected."""
        return self._lists(name) != self.excludes if self.names else True

    def meets(self, own: Names) -> bool:
        """Return whether it selects some of the names that another list has."""
        if self.excludes:
            return not all(self._lists(name) for name in own.names)
        pairs = [(name, each) for name in self.names for each in own.names]
        return not pairs or any(
            name.startswith(each) or (each.startswith(name) and not self.is_exact) for name, each in pairs
        )

    def fits(self, own: Names) -> bool:
        """Return whether it selects some of the names that another list has, and no other ones."""
        if self.excludes:
            return not all(self._lists(name) for name in own.names)
        return bool(self.names) and all(own.lists_all(name, is_exact=self.is_exact) for name in self.names)

    def lists_all(self, name: str, *, is_exact: bool) -> bool:
        """Return whether all that another entry selects is in the list; a name with digits is taken as exact."""
        if self.is_exact:
            return name in self.names and (is_exact or name[-1:].isdecimal())
        return any(name.startswith(each) for each in self.names)

    def _lists(self, name: str) -> bool:
        return name in self.names if self.is_exact else any(name.startswith(each) for each in self.names)


def only(value: str, prefixes: Iterable[str]) -> bool:
    """Return whether a list of devices has none but those of other machines."""
    found = Names.of(value)
    known = tuple(prefixes)
    return not found.excludes and bool(found.names) and all(name.startswith(known) for name in found.names)


def is_on(value: str) -> bool:
    """Return whether the number of a switch is not 0."""
    try:
        return int(value, 0) != 0
    except ValueError:
        return False


def is_same(name: str, value: str, wanted: str) -> bool:
    """Return whether two values of a variable mean the same: an exact name, or another case of the name of a net."""
    if name == INTERFACES[0]:
        return value.removeprefix("=") == wanted.removeprefix("=")
    return value.lower() == wanted.lower() if name == NET else value == wanted
