"""Write the commands that show by hand what a status reports."""

from __future__ import annotations

import shlex

from grpo.cluster.expected import Expected


def commands(expected: Expected) -> dict[str, str]:
    """Return the command for each part of a status."""
    where = ["-n", expected.namespace]
    labels = ["-l", f"grpo-charts/stack={expected.name}"]
    head = shlex.join(["kubectl", "get", "pods", *where, "-l", f"{labels[1]},ray.io/node-type=head", "-o", "name"])
    found = {
        "releases": shlex.join(["helm", "list", *where]),
        "cluster": shlex.join(
            ["kubectl", "get", "rayclusters", *([expected.cluster] if expected.cluster else []), *where]
        ),
        "pods": shlex.join(["kubectl", "get", "pods", *where, *labels, "-o", "wide"]),
        "waits": shlex.join(["kubectl", "describe", "pods", *where, *labels]),
    }
    if expected.job:
        found["run"] = shlex.join(["kubectl", "describe", "rayjob", expected.job, *where])
    if expected.run_directory:
        record = shlex.join(["cat", f"{expected.run_directory}/status.json"])
        found["record"] = f'{shlex.join(["kubectl", "exec", *where])} "$({head})" -c ray-head -- {record}'
    return found
