"""Print why actors of the Ray cluster died and tasks failed, the most recent ones first.

The `--detail` of Ray's own command also prints each actor's environment variables, which may contain secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

SHOWN: Final = 200
# The keys of a cause whose values are words for people (ActorDeathCause in Ray's gcs.proto).
WORDS: Final = ("error_message", "formatted_exception_string")


def texts(cause: Any) -> Iterator[str]:
    """Yield the texts in a cause, which is a message with nested messages."""
    for key, value in cause.items() if isinstance(cause, dict) else ():
        if key in WORDS:
            yield str(value)
        else:
            yield from texts(value)


def actor(found: Any) -> str:
    why = "; ".join(texts(found.death_cause)) or "no cause is known"
    return f"actor {found.class_name} {found.name or ''} process {found.pid} on node {found.node_id}: {why}"


def task(found: Any) -> str:
    where = f"process {found.worker_pid} on node {found.node_id}"
    return f"task {found.name} {where}: {found.error_type}: {found.error_message}"


def main() -> None:
    """Query Ray and print the results; a truncated table is printed as far as it goes."""
    from ray.util.state import list_actors, list_tasks

    asked: dict[str, Any] = {"limit": 10_000, "timeout": 15, "detail": True, "raise_on_missing_output": False}
    dead = list_actors(filters=[("state", "=", "DEAD")], **asked)
    failed = list_tasks(filters=[("state", "=", "FAILED")], **asked)
    if not dead and not failed:
        print("Ray names no dead actor and no failed task")
    # It does not say when an actor died; a later driver has a higher number.
    for found in sorted(dead, key=lambda one: str(one.job_id), reverse=True)[:SHOWN]:
        print(actor(found))
    for found in sorted(failed, key=lambda one: one.end_time_ms or 0, reverse=True)[:SHOWN]:
        print(task(found))


if __name__ == "__main__":
    main()
