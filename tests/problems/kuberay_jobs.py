"""Edits of a RayJob that brings a valid cluster: what KubeRay and the rules are asked about.

A path leads from the spec of the job.
"""

from __future__ import annotations

from tests.problems.kuberay_clusters import GONE, Edits

OTHER: Edits = {"rayClusterSpec": GONE, "clusterSelector": {"ray.io/cluster": "ray"}}


def rules(*rows: tuple[str, str, int | None]) -> Edits:
    """Give a job deletion rules of (policy, status, seconds)."""
    found = []
    for policy, status, seconds in rows:
        key = "jobDeploymentStatus" if status == "Failed" else "jobStatus"
        after = {} if seconds is None else {"ttlSeconds": seconds}
        found.append({"policy": policy, "condition": {key: status, **after}})
    return {"deletionStrategy": {"deletionRules": found}}


def old(success: str | None, failure: str | None) -> Edits:
    """Give a job the older form of a deletion strategy."""
    given = {"onSuccess": success, "onFailure": failure}
    return {"deletionStrategy": {key: {"policy": value} for key, value in given.items() if value}}


SHUT: Edits = {"shutdownAfterJobFinishes": True}
SCALED: Edits = {"rayClusterSpec.enableInTreeAutoscaling": True}
JOB: dict[str, Edits] = {
    "as it is": {},
    "of another cluster": OTHER,
    **{
        f"mode {mode}": {"submissionMode": mode}
        for mode in ("HTTPMode", "K8sJobMode", "InteractiveMode", "SidecarMode", "HttpMode", "K8SJobMode", "")
    },
    "no mode": {"submissionMode": GONE},
    **{
        f"suspended, {name}": {"suspend": True, **more}
        for name, more in (
            ("kept", {}),
            ("shut down", SHUT),
            ("other cluster", {**OTHER, **SHUT}),
            ("other, kept", OTHER),
        )
    },
    **{
        f"ttl {seconds}, {name}": {"ttlSecondsAfterFinished": seconds, **more}
        for seconds in (-1, 0, 1, 600)
        for name, more in (("kept", {}), ("shut down", SHUT))
    },
    **{
        f"{key} {value}": {key: value}
        for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds", "backoffLimit")
        for value in (-1, 0, 1)
    },
    "no cluster": {"rayClusterSpec": GONE},
    "no cluster, empty selector": {"rayClusterSpec": GONE, "clusterSelector": {}},
    "selector with another key": {**OTHER, "clusterSelector": {"cluster": "ray"}},
    "selector with an empty name": {**OTHER, "clusterSelector": {"ray.io/cluster": ""}},
    "selector with two keys": {**OTHER, "clusterSelector": {"ray.io/cluster": "ray", "team": "rl"}},
    "both": {"clusterSelector": {"ray.io/cluster": "ray"}},
    **{
        f"other cluster, {mode}": {**OTHER, "submissionMode": mode}
        for mode in ("HTTPMode", "K8sJobMode", "InteractiveMode", "SidecarMode")
    },
    **{
        f"retries {limit}, {name}": {"backoffLimit": limit, **more}
        for limit in (0, 1)
        for name, more in (
            ("other", OTHER),
            ("interactive", {"submissionMode": "InteractiveMode"}),
            ("sidecar", {"submissionMode": "SidecarMode"}),
        )
    },
    **{
        f"{mode} with {name}": {"submissionMode": mode, key: value}
        for mode in ("SidecarMode", "HTTPMode", "K8sJobMode")
        for name, key, value in (
            ("template", "submitterPodTemplate", {"spec": {"containers": [{"name": "submit", "image": "ray:1"}]}}),
            ("empty template", "submitterPodTemplate", {"spec": {"containers": []}}),
            ("submitter", "submitterConfig", {"backoffLimit": 1}),
            ("empty submitter", "submitterConfig", {}),
        )
    },
    **{
        f"{mode}, head restarts {policy}": {
            "submissionMode": mode,
            "rayClusterSpec.headGroupSpec.template.spec.restartPolicy": policy,
        }
        for mode in ("SidecarMode", "HTTPMode")
        for policy in ("Never", "Always", "OnFailure")
    },
    **{
        f"environment {number}": {"runtimeEnvYAML": text}
        for number, text in enumerate(
            (
                "env_vars: {A: b}",
                "",
                "pip:\n  - torch\n",
                "a",
                "- a",
                "a: [",
                "{}",
                "# nothing",
                "null",
                "12",
                "a: b\nc: d",
                "a:\tb",
                "working_dir: ./x",
                "\ta: b",
                "--- {a: b}",
                "'a'",
            )
        )
    },
    **{
        f"metadata, Ray {version}, {mode}": {
            "metadata": {"team": "rl"},
            "rayClusterSpec.rayVersion": version,
            "submissionMode": mode,
        }
        for version in (
            "2.55.1",
            "2.6.0",
            "2.5.9",
            "nightly",
            "",
            "2",
            "2.55",
            "v2.55.1",
            "2.53.0.dev0",
            "2.55.1rc1",
            "2.55.1-rc1",
            "2.6.0+cpu",
            "2.6",
        )
        for mode in ("K8sJobMode", "HTTPMode")
    },
    "metadata, no version": {
        "metadata": {"team": "rl"},
        "rayClusterSpec.rayVersion": GONE,
        "submissionMode": "SidecarMode",
    },
    **{
        f"managed by {value}": {"managedBy": value}
        for value in ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue", "me")
    },
    **{
        f"entrypoint {number} {mode}": {"entrypoint": text, "submissionMode": mode}
        for mode in ("HTTPMode", "K8sJobMode")
        for number, text in enumerate(
            (
                "",
                " \n",
                "python a.py; python b.py",
                "bash -c 'a; b'",
                "python a.py\n",
                "python a.py $HOME",
                "set -o pipefail; a",
            )
        )
    },
    "no entrypoint": {"entrypoint": GONE},
    "no entrypoint, interactive": {"entrypoint": GONE, "submissionMode": "InteractiveMode"},
    **{f"entrypoint takes {count} GPUs": {"entrypointNumGpus": count} for count in (0, 8, 9)},
    **{
        f"entrypoint resources {text}": {"entrypointResources": text} for text in ('{"a": 1}', "a: 1", '{"a": "b"}', "")
    },
    "empty strategy": {"deletionStrategy": {}},
    "no rules": {"deletionStrategy": {"deletionRules": []}},
    **{
        f"rules {' '.join(str(part) for row in rows for part in row)}, {name}": {**rules(*rows), **more}
        for rows in (
            (("DeleteCluster", "SUCCEEDED", 0),),
            (("DeleteWorkers", "FAILED", 60),),
            (("DeleteSelf", "Failed", None),),
        )
        for name, more in (("kept", {}), ("shut down", SHUT), ("scaled", SCALED), ("other", OTHER))
    },
    **{
        f"rules {' '.join(str(part) for row in rows for part in row)}": rules(*rows)
        for rows in (
            (("DeleteNone", "SUCCEEDED", None),),
            (("DeleteAll", "SUCCEEDED", 0),),
            (("DeleteSelf", "STOPPED", 0),),
            (("DeleteSelf", "SUCCEEDED", -1),),
            (("DeleteSelf", "SUCCEEDED", 0), ("DeleteSelf", "SUCCEEDED", 60)),
            (("DeleteSelf", "SUCCEEDED", 0), ("DeleteSelf", "FAILED", 60)),
            (("DeleteSelf", "FAILED", 0), ("DeleteSelf", "Failed", 60)),
            (("DeleteWorkers", "FAILED", 0), ("DeleteCluster", "FAILED", 60), ("DeleteSelf", "FAILED", 60)),
            (("DeleteWorkers", "FAILED", 61), ("DeleteCluster", "FAILED", 60)),
            (("DeleteSelf", "FAILED", 1), ("DeleteWorkers", "FAILED", 2)),
            (("DeleteCluster", "FAILED", 5), ("DeleteSelf", "FAILED", None)),
            (("DeleteSelf", "Failed", 5), ("DeleteCluster", "Failed", 6)),
            (("DeleteWorkers", "FAILED", 9), ("DeleteCluster", "SUCCEEDED", 1)),
            (("DeleteNone", "FAILED", 9), ("DeleteSelf", "FAILED", 1)),
        )
    },
    "rule with two conditions": {
        "deletionStrategy": {
            "deletionRules": [
                {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}}
            ]
        }
    },
    "rule with an empty condition": {
        "deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"ttlSeconds": 5}}]}
    },
    "rule without a condition": {"deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf"}]}},
    "rule without a policy": {"deletionStrategy": {"deletionRules": [{"condition": {"jobStatus": "FAILED"}}]}},
    **{
        f"old {success} {failure}, {name}": {**old(success, failure), **more}
        for success, failure in (
            ("DeleteCluster", "DeleteNone"),
            ("DeleteWorkers", "DeleteSelf"),
            ("DeleteSelf", "DeleteSelf"),
        )
        for name, more in (("kept", {}), ("shut down", SHUT), ("scaled", SCALED), ("other", OTHER))
    },
    "old success alone": old("DeleteSelf", None),
    "old failure alone": old(None, "DeleteSelf"),
    "old without a policy": {"deletionStrategy": {"onSuccess": {}, "onFailure": {"policy": "DeleteSelf"}}},
    "old unknown": old("DeleteSelf", "DeleteAll"),
    "old and new": {
        "deletionStrategy": {
            **old("DeleteSelf", "DeleteSelf")["deletionStrategy"],
            **rules(("DeleteSelf", "FAILED", 0))["deletionStrategy"],
        }
    },
    **{
        f"job field {key}": {key: value}
        for key, value in (
            ("entryPoint", "a"),
            ("ttlSeconds", 5),
            ("runtimeEnv", {"a": "b"}),
            ("submitterConfig", {"backoffLimits": 1}),
        )
    },
    **{
        f"null {key}": {key: None}
        for key in (
            *("submissionMode", "rayClusterSpec", "entrypoint", "backoffLimit", "deletionStrategy", "runtimeEnvYAML"),
            *("clusterSelector", "suspend", "ttlSecondsAfterFinished", "submitterPodTemplate", "managedBy"),
        )
    },
}
