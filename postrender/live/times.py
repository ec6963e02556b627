"""Read and write times as Kubernetes and the guard do."""

from __future__ import annotations

import calendar
import time
from typing import Any

from postrender.manifests.pods import mapping


def seconds(stamp: object) -> float | None:
    """Return a time in UTC as seconds since 1970; None for what is no such time."""
    try:
        return float(calendar.timegm(time.strptime(str(stamp), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def last_seen(event: dict[str, Any]) -> str:
    """Return when an event was last seen, as the cluster writes it.

    In events.k8s.io, which the scheduler, KubeRay 1.7 and Kueue 0.18 use, eventTime is the first time.
    """
    last = mapping(event.get("series")).get("lastObservedTime")
    return str(event.get("lastTimestamp") or last or event.get("eventTime") or "")


def span(length: float) -> str:
    """Return a number of seconds for people."""
    minutes, hours = length / 60, length / 3600
    return f"{length:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.0f} h"
