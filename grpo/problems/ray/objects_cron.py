"""A RayCronJob's schedule, and what its jobs do not inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.ray.duration import nanoseconds, number
from grpo.problems.ray.rayspec import EVENT_ONLY, annotations_of, each_of, labels_of
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found
    from postrender.gate.manifests import Item

_EACH: Final = each_of("RayCronJob")
_NAMED: Final = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_EVERY: Final = "@every "
_MONTHS: Final = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
}
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_NONE: Final[dict[str, int]] = {}
# Name, least, most and the names of values of each field.
_FIELDS: Final = (
    ("minute", 0, 59, _NONE),
    ("hour", 0, 23, _NONE),
    ("day of the month", 1, 31, _NONE),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 6, _DAYS),
)
# Prefixes of labels and annotations that a scheduler or the operator reads on a job.
_READ: Final = ("kueue.x-k8s.io/", "kai.scheduler/", "volcano.sh/", "yunikorn.apache.org/", "ray.io/")


def _schedule(item: Item) -> Found:
    text = mapping(item.object.get("spec")).get("schedule")
    reason = _wrong(text) if isinstance(text, str) else ""
    if reason:
        yield ("spec", "schedule"), f"schedule cannot be parsed: {reason}"


def _wrong(text: str) -> str:
    """Return what is wrong with a schedule; an empty text if it is valid. Time zone names are not checked."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, blank, text = text.partition(" ")
        text = text.strip()
        if not blank:
            return f"nothing follows {zone}"
    if text.startswith("@"):
        every = text.startswith(_EVERY) and nanoseconds(text.removeprefix(_EVERY)) is not None
        return "" if every or text in _NAMED else "it is none of @hourly, @daily, @weekly, @monthly, @yearly, @every 6h"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"it has {len(fields)} fields, expected {len(_FIELDS)}"
    pairs = zip(fields, _FIELDS, strict=True)
    return next((f"{each} is not a valid {field[0]}" for each, field in pairs if not _is_valid(each, *field[1:])), "")


def _is_valid(field: str, least: int, most: int, names: dict[str, int]) -> bool:
    return all(_is_range(each, least, most, names) for each in field.split(",") if each)


def _is_range(text: str, least: int, most: int, names: dict[str, int]) -> bool:
    ends, slash, step = text.partition("/")
    if slash and (number(step) or 0) < 1:
        return False
    low, *high = ends.split("-")
    # The parser ignores what follows a dash after a star.
    if low in ("*", "?"):
        return True
    first = names.get(low.lower(), number(low))
    last = names.get(high[0].lower(), number(high[0])) if high else first
    if len(high) > 1 or first is None or last is None:
        return False
    return least <= first <= (most if slash and not high else last) <= most


def _unread(item: Item) -> Found:
    for name, given in (("labels", labels_of(item)), ("annotations", annotations_of(item))):
        for key in given:
            if str(key).startswith(_READ):
                yield ("metadata", name, key), f"{key} is on the RayCronJob, and not on its jobs"


RULES = (
    Problem(
        "ray/cron-schedule",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the schedule of a RayCronJob cannot be parsed",
        why=EVENT_ONLY.replace("pods", "jobs"),
        fix='write five fields, as in "0 6 * * 1-5", or @daily, or @every 6h',
        source="https://pkg.go.dev/github.com/robfig/cron/v3",
        check=_EACH(_schedule),
    ),
    Problem(
        "ray/cron-job-labels",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a RayCronJob has labels or annotations that its jobs do not inherit",
        why="the operator creates each job without them, so the job bypasses its queue and scheduler",
        fix="submit the RayJob with its labels from a CronJob of Kubernetes, or remove them",
        source="kuberay/ray-operator/controllers/ray/raycronjob_controller.go at v1.6.2",
        check=_EACH(_unread),
    ),
)
