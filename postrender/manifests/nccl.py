"""How NCCL reads its variables: lists of names, numbers, and the names of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from postrender.values import profiles

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
# How Linux names the devices of NVIDIA's network cards on any cloud that gives them no names of its own.
_ANYWHERE: Final = "mlx5"


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
        """Return whether it may select some of the names that another list selects."""
        if own.excludes:
            return True
        if self.excludes:
            return not all(map(self._lists, own.names))
        return self._overlaps(own) or not (self.names and own.names)

    def fits(self, own: Names) -> bool:
        """Return whether it selects some of the names that another list selects, and no other ones."""
        if self.excludes:
            excluded = own.names if own.excludes else ()
            return self.meets(own) and all(self.lists_all(name, is_exact=own.is_exact) for name in excluded)
        if own.excludes:
            return bool(self.names) and not self._overlaps(own)
        return bool(self.names) and all(own.lists_all(name, is_exact=self.is_exact) for name in self.names)

    def lists_all(self, name: str, *, is_exact: bool) -> bool:
        """Return whether all that another entry selects is in the list; a name with digits is taken as exact."""
        if self.is_exact:
            return name in self.names and (is_exact or name[-1:].isdecimal())
        return any(name.startswith(each) for each in self.names)

    def _lists(self, name: str) -> bool:
        return name in self.names if self.is_exact else any(name.startswith(each) for each in self.names)

    def _overlaps(self, other: Names) -> bool:
        pairs = [(name, each) for name in self.names for each in other.names]
        return any(
            name == each
            or (name.startswith(each) and not other.is_exact)
            or (each.startswith(name) and not self.is_exact)
            for name, each in pairs
        )


def are_others(value: str, own: str) -> bool:
    """Return whether a list of devices has none of a machine on which NCCL is told to use its `own` devices.

    Where these have the names that Linux gives, so may have other cards: then only the names of other machines count.
    """
    given, wanted = Names.of(value), Names.of(own)
    if not all(name.startswith(_ANYWHERE) for name in wanted.names):
        return not given.meets(wanted)
    # The profiles are read only for other names: that takes 0.1 s.
    if given.excludes or not given.names or any(name.startswith(_ANYWHERE) for name in given.names):
        return False
    found = (machine.hca for machine in profiles.machines())
    prefixes = tuple(hca for hca in found if hca and not hca.startswith(("=", _ANYWHERE)))
    return all(name.startswith(prefixes) for name in given.names)


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
