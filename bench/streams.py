"""Write the streams on which the post-renderer is measured: text as `helm template` prints it, the same every time.

    python bench/streams.py OUT

Writes OUT/small.yaml, medium.yaml, large.yaml and large_all.yaml.
"""

from __future__ import annotations

import os
import sys
from random import Random

# The folder of this file is on the path when it is run, and not when a test imports it.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ordinary
import targets
from ordinary import Document

# What fills a stream up to its number of documents, by turns.
FILLING: tuple[tuple[str, Document], ...] = (
    ("deployment", ordinary.workload("Deployment", "  replicas: 2\n  revisionHistoryLimit: 3\n")),
    ("service", ordinary.service),
    ("config", ordinary.config_map(24)),
    ("serviceaccount", ordinary.account),
    ("networkpolicy", ordinary.network_policy),
    ("clusterrole", ordinary.cluster_role),
    ("rolebinding", ordinary.role_binding),
    ("daemonset", ordinary.workload("DaemonSet", "  updateStrategy: {{type: RollingUpdate}}\n")),
    ("secret", ordinary.secret),
    ("cronjob", ordinary.cron_job),
    ("statefulset", ordinary.workload("StatefulSet", "  serviceName: {name}\n  replicas: 3\n")),
    ("alerts", ordinary.monitor),
)
RAY_CLUSTER = ("raycluster", targets.ray_cluster)
RAY_JOB = ("rayjob", targets.ray_job)
JOB = ("job", targets.job)
JOB_SET = ("jobset", targets.job_set)

# Name of a stream: number of documents, and those that are not filling, each with how often it stands there.
Special = tuple[tuple[tuple[str, Document], int], ...]
SIZES: dict[str, tuple[int, Special]] = {
    "small": (10, ((RAY_CLUSTER, 1), (JOB, 1))),
    "medium": (
        300,
        ((RAY_CLUSTER, 4), (RAY_JOB, 3), (JOB, 6), (JOB_SET, 3), (("dashboard", ordinary.config_map(650)), 16)),
    ),
    "large": (
        3000,
        ((RAY_CLUSTER, 1), (("crd", ordinary.definition(4)), 6), (("dashboard", ordinary.config_map(2200)), 80)),
    ),
    "large_all": (3000, ((RAY_CLUSTER, 300), (("dashboard", ordinary.config_map(3200)), 80))),
}


def documents(size: str) -> list[tuple[str, Document]]:
    """Return the documents of a stream in order: the special ones stand evenly between the others."""
    count, special = SIZES[size]
    chosen = [document for document, times in special for _ in range(times)]
    places = {(2 * at + 1) * count // (2 * len(chosen)): document for at, document in enumerate(shuffled(chosen))}
    filling = 0
    made = []
    for at in range(count):
        if at in places:
            made.append(places[at])
        else:
            made.append(FILLING[filling % len(FILLING)])
            filling += 1
    return made


def shuffled(chosen: list[tuple[str, Document]]) -> list[tuple[str, Document]]:
    """Mix the special documents, so that no kind stands at one end."""
    numbers = Random(7)  # noqa: S311 (nothing secret is drawn)
    return sorted(chosen, key=lambda _: numbers.random())


def stream(size: str) -> bytes:
    """Return one stream."""
    numbers = Random(size)  # noqa: S311
    made = []
    for at, (name, document) in enumerate(documents(size)):
        chart = f"bench/charts/{numbers.choice(ordinary.TEAMS)}" if at % 3 else "bench"
        made.append(f"---\n# Source: {chart}/templates/{name}.yaml\n{document(numbers, f'{name}-{at}')}")
    return "".join(made).encode()


def main() -> int:
    """Write the streams and print their sizes."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python bench/streams.py OUT\n")
        return 2
    os.makedirs(sys.argv[1], exist_ok=True)
    for size in SIZES:
        data = stream(size)
        with open(os.path.join(sys.argv[1], f"{size}.yaml"), "wb") as file:
            file.write(data)
        print(f"{size:<10} {SIZES[size][0]:5} documents {len(data):10} bytes {data.count(10):8} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
