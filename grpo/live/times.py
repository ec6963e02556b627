"""Read and write times as Kubernetes and the guard do."""

from __future__ import annotations

import calendar
import time
from typing import Any

from postrender.manifests.pods import mapping


def seconds(stamp: object) -> float | None:
    """Return a UTC time as seconds since 1970, or None if the text is not such a time."""
    try:
        return float(calendar.timegm(time.strptime(str(stamp), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def last_seen(event: dict[str, Any]) -> str:
    """Return when an event was last seen, in whole seconds like all other times, so that times compare as text.

    In events.k8s.io, which the scheduler, KubeRay 1.7 and Kueue 0.18 use, times have microseconds, and eventTime is
    when the event was first seen.
    """
    last = mapping(event.get("series")).get("lastObservedTime")
    found = str(event.get("lastTimestamp") or last or event.get("eventTime") or "")
    return f"{found.partition('.')[0]}Z" if "." in found else found


def span(length: float) -> str:
    """Return a number of seconds in human-readable form."""
    minutes, hours = length / 60, length / 3600
    return f"{length:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.0f} h"
