"""Print each Ray node's GPUs, and how many of them are free, as a JSON line every few seconds.

It runs as a separate process, because Ray's client keeps threads and connections that the launcher must not have.
"""

from __future__ import annotations

import json
import os
import time


def main() -> None:
    """Connect to this job's cluster and report until the reader closes the pipe."""
    # Not a second driver of the submitted job: Ray would create that job's runtime environment again.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    import ray

    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    while True:
        nodes = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
        print(json.dumps({"gpus": nodes, "free": ray.available_resources().get("GPU", 0)}), flush=True)
        time.sleep(2)


if __name__ == "__main__":
    main()
