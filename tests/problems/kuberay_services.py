"""Edits of a RayService and of a RayCronJob: what KubeRay and the rules are asked about.

A path leads from the spec of the object; `/metadata` begins at the top of it.
"""

from __future__ import annotations

from typing import Any

from tests.problems.kuberay_clusters import GONE, Edits, annotation

HEAD = "rayClusterConfig.headGroupSpec"
PORTS = f"{HEAD}.template.spec.containers.0.ports"
DASHBOARD = {"name": "dashboard", "containerPort": 8265}
OPTIONS = {"stepSizePercent": 10, "intervalSeconds": 30, "gatewayClassName": "istio"}
SCALED: Edits = {"rayClusterConfig.enableInTreeAutoscaling": True}


def step(options: Any = GONE, kind: Any = "NewClusterWithIncrementalUpgrade") -> Edits:
    """Give a service a strategy for its upgrades."""
    given = {"type": kind, "clusterUpgradeOptions": options}
    return {"upgradeStrategy": {key: value for key, value in given.items() if value is not GONE}}


def ports(*names: str) -> Edits:
    """Give the head's container ports of these names, beside the one of the dashboard."""
    return {PORTS: [DASHBOARD, *({"name": name, "containerPort": 8000 + at} for at, name in enumerate(names))]}


SERVICE: dict[str, Edits] = {
    "as it is": {},
    "no cluster": {"rayClusterConfig": GONE},
    "null cluster": {"rayClusterConfig": None},
    **{
        f"upgrade {kind}": step(kind=kind)
        for kind in ("NewCluster", "None", "Recreate", "RollingUpdate", "newCluster", "")
    },
    "upgrade of no type": {"upgradeStrategy": {}},
    "upgrade of null type": {"upgradeStrategy": {"type": None}},
    "incremental, no options, not scaled": step(),
    "incremental, not scaled": step(OPTIONS),
    "incremental, no options": {**SCALED, **step()},
    "incremental": {**SCALED, **step(OPTIONS)},
    **{
        f"incremental, {key} {value}": {**SCALED, **step({**OPTIONS, key: value})}
        for key, values in (
            ("maxSurgePercent", (-1, 0, 100, 101, None)),
            ("stepSizePercent", (-1, 0, 100, 101, None)),
            ("intervalSeconds", (-1, 0, 1, None)),
            ("gatewayClassName", ("", None)),
        )
        for value in values
    },
    **{
        f"incremental without {gone}": {**SCALED, **step({key: OPTIONS[key] for key in OPTIONS if key != gone})}
        for gone in OPTIONS
    },
    **{
        f"options of NewCluster, step {size}": step({**OPTIONS, "stepSizePercent": size}, "NewCluster")
        for size in (10, 101)
    },
    "options of no type": step(OPTIONS, GONE),
    **{
        f"{key} {value}": {key: value}
        for key in ("rayClusterDeletionDelaySeconds", "serviceUnhealthySecondThreshold")
        for value in (-1, 0, 60)
    },
    **{
        f"managed by {value}": {"managedBy": value}
        for value in ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue", "me")
    },
    **{
        f"initializing {text!r}": annotation("ray.io/initializing-timeout", text)
        for text in (
            *("30m", "1h", "90", "1h30m", "1.5h", "500ms", ".5s", "5.s", "+5m", "+90", "100us", "1h1h"),
            *(
                "0",
                "0s",
                "-1",
                "-5m",
                "",
                "5",
                "5 m",
                "5d",
                "m",
                "1h30",
                "abc",
                " 5m",
                "1e3",
                "1_000",
                "0x10",
                "5M",
                "0.1ns",
            ),
            *("-0", "+0", ".s", "99999999999999999999", "1\u00b5s", "1\u03bcs", "9223372036854775807ns", "3000000h"),
        )
    },
    **{
        f"head's service {name}": {f"{HEAD}.headService": value}
        for name, value in (
            ("named", {"metadata": {"name": "head"}}),
            ("annotated", {"metadata": {"annotations": {"a": "b"}}}),
            ("with an empty name", {"metadata": {"name": ""}}),
        )
    },
    "port serve": ports("serve"),
    "port serve-grpc": ports("serve-grpc"),
    "port served": ports("served"),
    "no port serve": ports("client"),
    "no ports": {PORTS: []},
    "no port serve, own service": {
        **ports("client"),
        "serveService": {"spec": {"ports": [{"name": "serve", "port": 8000}]}},
    },
    "no port serve, incremental, own service": {
        **ports("client"),
        **SCALED,
        **step(OPTIONS),
        "serveService": {"spec": {"ports": [{"name": "serve", "port": 8000}]}},
    },
    "own service": {"serveService": {"metadata": {"name": "mine"}, "spec": {"type": "LoadBalancer"}}},
    **{
        f"applications {number}": {"serveConfigV2": text}
        for number, text in enumerate(
            ("a", "- a", "a: [", "a:\tb", "12", "\ta: b", "applications: []\nproxy_location: HeadOnly\n", "'a'")
        )
    },
    "no applications": {"serveConfigV2": GONE},
    **{
        f"service field {key}": {key: value}
        for key, value in (
            ("serveConfig", "a: b"),
            ("rayClusterSpec", {}),
            ("suspend", True),
            ("upgradeStrategy", {"typ": "NewCluster"}),
        )
    },
    "options field": {**SCALED, **step({**OPTIONS, "interval": 1})},
    "tokens of Kubernetes": {
        "rayClusterConfig.authOptions": {"mode": "token", "enableK8sTokenAuth": True},
    },
}
CRON: dict[str, Edits] = {
    **{
        f"schedule {text!r}": {"schedule": text}
        for text in (
            *("0 6 * * *", "*/15 0-6,8 1 * 1-5", "@hourly", "@daily", "@midnight", "@every 6h", "@every 1h30m"),
            *("@yearly", "@annually", "@monthly", "@weekly", "0 0 * * SUN", "0 0 1 jan-Mar ?", "5/10 * * * *"),
            *("TZ=UTC 0 6 * * *", "CRON_TZ=Europe/Berlin 0 6 * * *", "  0  6 * * *  "),
            *("", "daily", "@Daily", "@often", "@every", "@every 6", "@every -6h", "@every 0s", "0 6 * *"),
            *("0 0 6 * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *"),
            *("* * * * 7", "* * * * 8", "5-2 * * * *", "1-2-3 * * * *", "*/0 * * * *", "*/a * * * *", "1,, * * * *"),
            *("a * * * *", "-1 * * * *", "* * * * MON-FRI", "* * * * monday", "*/5/5 * * * *", "*-5 * * * *"),
            *("1, * * * *", ", * * * *", "? ? ? ? ?", "0-59/61 * * * *", "+1 * * * *", "TZ=UTC", "1/ * * * *"),
            *("0 6 * * *\n", "0\t6 * * *", "TZ= 0 6 * * *", "TZ=Local 0 6 * * *", "*/60 * * * *", "007 * * * *"),
            *("TZ=UTC @daily", "@daily ", " @daily", "@every 1h "),
        )
    },
    **{f"{key} gone": {key: GONE} for key in ("schedule", "jobTemplate")},
    **{f"{key} null": {key: None} for key in ("schedule", "jobTemplate")},
    "suspended": {"suspend": True},
    "annotated, which its jobs are not": {
        **annotation("ray.io/ft-enabled"),
        "jobTemplate.rayClusterSpec.gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    },
    "cron field": {"timeZone": "UTC"},
    "metadata in the template": {"jobTemplate.metadata.labels": "a"},
    "spec in the template": {"jobTemplate.spec": {"entrypoint": "a"}},
}  # fmt: skip
