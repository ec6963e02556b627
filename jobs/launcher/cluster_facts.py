"""Compare what the job was rendered for with what the cluster was made from."""

from __future__ import annotations

import json
import os

from runtime import JobError, Record, say


def flat(facts: Record) -> Record:
    """Return facts with the entries of their maps side by side: mounts./data, environment.HF_HOME."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in facts.items()}
    return {f"{key}.{name}" if name else key: value for key, part in parts.items() for name, value in part.items()}


def compare_facts(expected: Record) -> None:
    """Refuse a cluster that was made from other values than this job."""
    text = os.environ.get("GRPO_CLUSTER_FACTS")
    if text is None:
        say("warning: no GRPO_CLUSTER_FACTS here: the raycluster chart did not make this cluster, nothing to compare")
        return
    try:
        cluster = flat(json.loads(text))
    except (ValueError, AttributeError):
        raise JobError("GRPO_CLUSTER_FACTS is not a JSON object: upgrade the raycluster release") from None
    # Variables by name only: what is in them may be nobody else's business.
    wrong = [
        f"{key} is another on the cluster"
        if key.startswith("environment.")
        else f"{key}: the cluster has {cluster.get(key, 'nothing')}, this job was rendered for {value}"
        for key, value in flat(expected).items()
        if key not in cluster or cluster[key] != value
    ]
    if wrong:
        advice = "give the raycluster and the grpo-job release the same values files and upgrade the one that is behind"
        raise JobError(f"{'; '.join(wrong)}. What to do: {advice}")
    say("the cluster agrees with this job")
