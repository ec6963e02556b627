"""Reject what the values' platform or machine does not have, as `common.checkPlatform` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from postrender.errors import InputError
from postrender.values.merge import Values

# Where a profile says what its nodes offer for each way to attach a GPU network.
_OFFERS: Final = {"devices": "resources", "dranet": "claims", "multiNetwork": "interfaces"}


def check(sections: Mapping[str, Any], given: Values) -> None:
    """Raise InputError if pods would be wired for something missing, and would then wait or train over TCP."""
    _check_refusals(sections, given)
    _check_mode(sections, given)
    _check_capacity(sections["platform"], given)


def _check_refusals(sections: Mapping[str, Any], given: Values) -> None:
    accelerator, platform = sections["accelerator"], sections["platform"]
    asked = {
        ("network", "mode"): sections["network"]["mode"],
        ("platform", "capacity", "kind"): platform["capacity"]["kind"],
        ("platform", "kind"): platform["kind"],
    }
    for path, value in asked.items():
        if reason := accelerator.get("refuses", {}).get(value):
            what, _, fix = reason.partition(". ")
            message = f"{'.'.join(path)} {value} does not work on {accelerator['name']}, because {what}"
            raise InputError(message, at=given.at(path), fix=f"{fix[:1].lower()}{fix[1:]}")


def _check_mode(sections: Mapping[str, Any], given: Values) -> None:
    accelerator, mode = sections["accelerator"], sections["network"]["mode"]
    # Some clouds give a pod its devices without a request: accelerator.resources is then written, and empty.
    offered = [
        name for name, key in _OFFERS.items() if accelerator.get(key) or (name == "devices" and key in accelerator)
    ]
    at, kind = given.at(("network", "mode")), sections["platform"]["kind"]
    if mode in _OFFERS and mode not in offered:
        raise InputError(
            f"network.mode is {mode}, but the profile of {accelerator['name']} has no accelerator.{_OFFERS[mode]}",
            at=at,
            fix=f"set network.mode to {' or '.join([*offered, 'none'])}",
        )
    if mode == "multiNetwork" and not kind.startswith("gke-"):
        raise InputError(
            f"network.mode multiNetwork makes networks of GKE, but platform.kind is {kind}",
            at=at,
            fix="set network.mode to devices, dranet or none, with a profile of your machines (values/accelerators)",
        )


def _check_capacity(platform: Mapping[str, Any], given: Values) -> None:
    capacity, at = platform["capacity"], given.at(("platform", "capacity"))
    kind, reservation = capacity["kind"], capacity["reservation"]
    if not platform["kind"].startswith("gke-") and (kind != "on-demand" or capacity["placementPolicy"]):
        raise InputError(
            f"platform.capacity says how GKE nodes are bought, but platform.kind is {platform['kind']}",
            at=at,
            fix="remove it, and write the label of such nodes under accelerator.nodeSelector and their taint under "
            "accelerator.tolerations, as docs/howto/clouds.md does",
        )
    if (kind == "reservation") != bool(reservation):
        raise InputError(
            f"platform.capacity.kind is {kind}, but platform.capacity.reservation is {reservation or 'not given'}",
            at=at,
            fix="set the kind to reservation and give its name, or remove both",
        )
    if platform["kind"] == "gke-autopilot" and "/" in reservation:
        raise InputError(
            f"platform.capacity.reservation is {reservation}: a pod on Autopilot cannot select a block of it",
            at=at,
            fix="write the name alone, without the slash and what follows it",
        )
