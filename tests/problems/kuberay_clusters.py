"""Edits of a Ray cluster, alone or in a job: what KubeRay and the rules are asked about.

A path leads from the spec of the cluster; `/metadata` begins at the top of the object.
"""

from __future__ import annotations

from typing import Any, Final

Edits = dict[str, Any]
# What a field is set to that is to be missing.
GONE: Final = object()
HEAD, GPU, CPU = "headGroupSpec", "workerGroupSpecs.0", "workerGroupSpecs.1"
HEAD_ENV = f"{HEAD}.template.spec.containers.0.env.0"
V2: Edits = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
REDIS: Edits = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}


def env(name: str, value: str = "1") -> Edits:
    """Give the head's container a variable."""
    return {HEAD_ENV: {"name": name, "value": value}}


def annotation(name: str, value: str = "true") -> Edits:
    """Annotate the object."""
    return {"/metadata.annotations": {name: value}}


# What is asked of a cluster alone and of the cluster of a job.
CLUSTER: dict[str, Edits] = {
    "as it is": {},
    **{
        f"{key} {value}": {f"{GPU}.{key}": value}
        for key in ("minReplicas", "maxReplicas")
        for value in (-1, 0, 1, 2, 3)
    },
    **{
        f"bounds {least} {most}": {f"{CPU}.minReplicas": least, f"{CPU}.maxReplicas": most}
        for least, most in ((-1, -1), (0, 0), (4, 4), (5, 4), (3, 0), (-2, 3))
    },
    **{f"replicas {value}": {f"{GPU}.replicas": value} for value in (-1, 0, 1, 2, 3)},
    "no minReplicas": {f"{GPU}.minReplicas": GONE},
    "no maxReplicas": {f"{GPU}.maxReplicas": GONE},
    "no bounds": {f"{GPU}.minReplicas": GONE, f"{GPU}.maxReplicas": GONE},
    "null bounds": {f"{GPU}.minReplicas": None, f"{GPU}.maxReplicas": None},
    "least without most": {f"{CPU}.minReplicas": 5, f"{CPU}.maxReplicas": GONE},
    "several hosts": {f"{GPU}.numOfHosts": 2},
    "group name twice": {f"{CPU}.groupName": "gpu"},
    "groups with other names": {f"{CPU}.groupName": "gpu-2"},
    "no workers": {"workerGroupSpecs": GONE},
    "empty list of workers": {"workerGroupSpecs": []},
    "suspended group": {f"{GPU}.suspend": True},
    "suspended group, scaled": {f"{GPU}.suspend": True, "enableInTreeAutoscaling": True},
    "group not suspended, scaled": {f"{GPU}.suspend": False, "enableInTreeAutoscaling": True},
    **{
        f"{name} without containers": {f"{place}.template.spec.containers": []}
        for name, place in (("head", HEAD), ("gpu", GPU), ("cpu", CPU))
    },
    **{
        f"{name} {param} beside resources": {
            f"{place}.rayStartParams": {param: "1"},
            f"{place}.resources": {"CPU": "1"},
        }
        for name, place in (("head", HEAD), ("gpu", GPU), ("cpu", CPU))
        for param in ("num-cpus", "num-gpus", "memory", "resources", "object-store-memory")
    },
    "empty num-cpus beside resources": {f"{GPU}.rayStartParams": {"num-cpus": ""}, f"{GPU}.resources": {"CPU": "1"}},
    "num-cpus beside no resources": {f"{GPU}.rayStartParams": {"num-cpus": "1"}, f"{GPU}.resources": {}},
    **{
        f"{name} labels in params": {f"{place}.rayStartParams": {"labels": value}}
        for name, place in (("head", HEAD), ("gpu", GPU))
        for value in ("a=b", "")
    },
    **{
        f"{name} label {key[:20]} {value[:20]} {len(key)} {len(value)}": {f"{place}.labels": {key: value}}
        for name, place in (("head", HEAD), ("cpu", CPU))
        for key, value in (
            ("zone", "a"),
            ("zone", ""),
            ("ray.io/zone", "a.b_c-d"),
            ("a" * 63, "b" * 63),
            ("a" * 64, "b"),
            ("a", "b" * 64),
            ("-zone", "a"),
            ("zone", "-a"),
            ("Ray.io/zone", "a"),
            ("a/b/c", "d"),
            ("/zone", "a"),
            ("zone/", "a"),
            ("zone", "a b"),
            (f"{'a' * 63}.io/zone", "a"),
            (f"{'.'.join(['a' * 63] * 4)}/zone", "a"),
            ("zöne", "a"),
        )
    },
    **{f"idle {seconds}": {f"{GPU}.idleTimeoutSeconds": seconds} for seconds in (-1, 0, 60)},
    **{f"idle {seconds}, v2": {f"{GPU}.idleTimeoutSeconds": seconds, **V2} for seconds in (-1, 0, 60)},
    "idle, v2 without scaling": {f"{GPU}.idleTimeoutSeconds": 60, "autoscalerOptions": {"version": "v2"}},
    "idle, v1": {
        f"{GPU}.idleTimeoutSeconds": 60,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"version": "v1"},
    },
    "idle, v2 by variable": {
        f"{GPU}.idleTimeoutSeconds": 60,
        "enableInTreeAutoscaling": True,
        **env("RAY_enable_autoscaler_v2"),
    },
    "idle, v2 by variable 0": {
        f"{GPU}.idleTimeoutSeconds": 60,
        "enableInTreeAutoscaling": True,
        **env("RAY_enable_autoscaler_v2", "0"),
    },
    **{f"autoscaler idle {seconds}": {"autoscalerOptions": {"idleTimeoutSeconds": seconds}} for seconds in (-1, 0, 1)},
    **{
        f"v2 by variable {value}, {scales}": {
            "enableInTreeAutoscaling": scales,
            **env("RAY_enable_autoscaler_v2", value),
        }
        for value in ("1", "true", "True", "0", "")
        for scales in (True, False)
    },
    "version and variable": {**V2, **env("RAY_enable_autoscaler_v2")},
    "version and variable 0": {**V2, **env("RAY_enable_autoscaler_v2", "0")},
    "version v1 and variable": {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"version": "v1"},
        **env("RAY_enable_autoscaler_v2"),
    },
    "version and variable, not scaled": {"autoscalerOptions": {"version": "v2"}, **env("RAY_enable_autoscaler_v2")},
    **{
        f"{name} restarts {policy} with {version}": {
            f"{place}.template.spec.restartPolicy": policy,
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"version": version},
        }
        for name, place in (("head", HEAD), ("gpu", GPU), ("cpu", CPU))
        for policy in ("Never", "Always", "OnFailure")
        for version in ("v1", "v2")
    },
    "head restarts with v2, not scaled": {
        f"{HEAD}.template.spec.restartPolicy": "Always",
        "autoscalerOptions": {"version": "v2"},
    },
    **{
        f"autoscaler {key} {value}": {"autoscalerOptions": {key: value}}
        for key, values in (
            ("version", ("v1", "v2", "v3", "V2")),
            ("upscalingMode", ("Default", "Aggressive", "Conservative", "default")),
        )
        for value in values
    },
    "fault tolerance": REDIS,
    "fault tolerance and annotation": {**REDIS, **annotation("ray.io/ft-enabled")},
    "fault tolerance and annotation false": {**REDIS, **annotation("ray.io/ft-enabled", "false")},
    "fault tolerance and empty annotation": {**REDIS, **annotation("ray.io/ft-enabled", "")},
    "fault tolerance and namespace": {**REDIS, **annotation("ray.io/external-storage-namespace", "one")},
    "namespace alone": annotation("ray.io/external-storage-namespace", "one"),
    **{
        f"variable {name}": env(name, "x")
        for name in ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME", "REDIS")
    },
    **{
        f"fault tolerance and variable {name}": {**REDIS, **env(name, "x")}
        for name in ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME", "REDIS")
    },
    **{
        f"annotation {value} and RAY_REDIS_ADDRESS": {
            **annotation("ray.io/ft-enabled", value),
            **env("RAY_REDIS_ADDRESS"),
        }
        for value in ("true", "TRUE", "false", "1")
    },
    **{f"param {name}": {f"{HEAD}.rayStartParams": {name: "x"}} for name in ("redis-password", "redis-username")},
    **{
        f"fault tolerance and param {name}": {**REDIS, f"{HEAD}.rayStartParams": {name: "x"}}
        for name in ("redis-password", "redis-username")
    },
    "fault tolerance and empty password": {**REDIS, f"{HEAD}.rayStartParams": {"redis-password": ""}},
    "worker has redis-username": {f"{GPU}.rayStartParams": {"redis-username": "x"}},
    "fault tolerance without address": {"gcsFaultToleranceOptions": {}},
    **{
        f"tokens, Ray {version}": {"authOptions": {"mode": "token"}, "rayVersion": version}
        for version in (
            "2.52.0",
            "2.51.9",
            "2.52",
            "v2.55.1",
            "2.53.0.dev0",
            "nightly",
            "",
            "2",
            "3.0",
            "1.99.99",
            "2.52.0rc1",
        )
    },
    "tokens, no version": {"authOptions": {"mode": "token"}, "rayVersion": GONE},
    "tokens off, no version": {"authOptions": {"mode": "disabled"}, "rayVersion": GONE},
    "tokens unknown": {"authOptions": {"mode": "Token"}},
    "tokens with a secret": {"authOptions": {"mode": "token", "secretName": "tokens"}},
    "no version": {"rayVersion": GONE},
    **{
        f"Kubernetes tokens, {mode}, Ray {version}, secret {secret}": {
            "authOptions": {"mode": mode, "enableK8sTokenAuth": True, "secretName": secret},
            "rayVersion": version,
        }
        for mode in ("token", "disabled")
        for version in ("2.55.0", "2.54.9")
        for secret in ("", "tokens")
    },
    "Kubernetes tokens without mode": {"authOptions": {"enableK8sTokenAuth": True}},
    "no Kubernetes tokens": {"authOptions": {"mode": "token", "enableK8sTokenAuth": False}},
    **{f"upgrade {value}": {"upgradeStrategy": {"type": value}} for value in ("Recreate", "None", "RollingUpdate")},
    "upgrade empty": {"upgradeStrategy": {}},
    **{
        f"cluster managed by {value}": {"managedBy": value}
        for value in ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue", "me")
    },
    **{
        f"cluster field {place} {key}": {(f"{place}.{key}" if place else key): value}
        for place, key, value in (
            ("", "networkPolicy", {"mode": "DenyAll"}),
            ("", "tlsOptions", {"enabled": True}),
            ("", "autoscaling", True),
            (HEAD, "ingressOptions", {"host": "h"}),
            (HEAD, "replicas", 1),
            (GPU, "priority", 1),
            (GPU, "minReplica", 1),
            (GPU, "nodeSelector", {"a": "b"}),
            (GPU, "scaleStrategy", {"workersToKeep": []}),
            ("", "suspended", True),
            ("autoscalerOptions", "command", ["a"]),
            ("authOptions", "secret", "a"),
            ("upgradeStrategy", "kind", "a"),
        )
    },
    "fault tolerance on a disk": {"gcsFaultToleranceOptions": {"redisAddress": "r:6379", "backend": "rocksdb"}},
    "head with dashboard port": {
        f"{HEAD}.template.spec.containers.0.ports": [{"name": "dashboard", "containerPort": 8265}]
    },
    "head without dashboard port": {
        f"{HEAD}.template.spec.containers.0.ports": [{"name": "client", "containerPort": 10001}]
    },
    "head with a joined command": {f"{HEAD}.template.spec.containers.0.command": ["bash", "-c", "set -e; true"]},
    "worker with a plain command": {f"{GPU}.template.spec.containers.0.command": ["sleep", "1"]},
    "number as a parameter": {f"{GPU}.rayStartParams": {"num-cpus": 4}},
    "text as replicas": {f"{GPU}.replicas": "2"},
    "no name of a group": {f"{CPU}.groupName": GONE},
    "no template": {f"{CPU}.template": GONE},
    "no head": {HEAD: GONE},
    "container without a name": {f"{GPU}.template.spec.containers.0.name": GONE},
    **{
        f"cluster null {dotted}": {dotted: None}
        for dotted in (
            *(
                "rayVersion",
                HEAD,
                f"{HEAD}.template",
                f"{HEAD}.rayStartParams",
                f"{HEAD}.rayStartParams.dashboard-host",
            ),
            *("workerGroupSpecs", f"{GPU}.groupName", f"{GPU}.replicas", f"{GPU}.template", f"{GPU}.template.spec"),
            *("autoscalerOptions", "authOptions", "upgradeStrategy", "gcsFaultToleranceOptions", "managedBy"),
            *(
                "enableInTreeAutoscaling",
                f"{GPU}.labels",
                f"{GPU}.idleTimeoutSeconds",
            ),
        )
    },
}
