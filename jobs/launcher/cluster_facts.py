"""Compare the cluster facts that the job was rendered for with the cluster's own facts."""

from __future__ import annotations

import json
import os

from runtime import JobError, Record, say


def flat(facts: Record) -> Record:
    """Flatten facts that are maps, into keys such as mounts./data and environment.HF_HOME."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in facts.items()}
    return {f"{key}.{name}" if name else key: value for key, part in parts.items() for name, value in part.items()}


def compare_facts(expected: Record) -> None:
    """Refuse to run on a cluster that was created from values other than this job's."""
    text = os.environ.get("GRPO_CLUSTER_FACTS")
    if text is None:
        say("warning: GRPO_CLUSTER_FACTS is not set: another chart created the cluster, so its facts are not compared")
        return
    try:
        cluster = flat(json.loads(text))
    except (ValueError, AttributeError):
        raise JobError("GRPO_CLUSTER_FACTS is not a JSON object: upgrade the raycluster release") from None
    # Variables by name only: their values may be confidential.
    wrong = [
        f"{key} is different on the cluster"
        if key.startswith("environment.")
        else f"{key}: the cluster has {cluster.get(key, 'nothing')}, this job was rendered for {value}"
        for key, value in flat(expected).items()
        if key not in cluster or cluster[key] != value
    ]
    if wrong:
        advice = "give the raycluster and the grpo-job release the same values files, and upgrade the outdated one"
        raise JobError(f"{'; '.join(wrong)}. What to do: {advice}")
    say("the cluster agrees with this job")
