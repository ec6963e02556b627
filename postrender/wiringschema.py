"""Schema and defaults of the sections that wiring follows from; `make generate` writes this file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "propertyNames": {
        "enum": [
            "stack",
            "platform",
            "accelerator",
            "network",
            "storage",
            "huggingface",
            "tracking",
            "images",
            "ray",
            "job",
            "checks",
            "global",
            "common",
            "enabled",
            "tags",
        ],
    },
    "default": {
        "stack": {"labels": {}, "names": {"cluster": "", "serviceAccount": ""}, "wiring": {"enabled": True}},
        "platform": {
            "kind": "gke-standard",
            "projectId": "",
            "projectNumber": "",
            "capacity": {
                "kind": "on-demand",
                "reservation": "",
                "maxRunDurationSeconds": 604800,
                "placementPolicy": "",
            },
        },
        "network": {
            "mode": "multiNetwork",
            "rdmaInstaller": {"enabled": False},
            "names": {"prefix": ""},
            "gvnic": {"prefix": "", "vpc": "", "subnet": ""},
            "rdma": {"prefix": "", "vpc": "", "subnets": {}},
        },
        "huggingface": {
            "secret": {"name": "hf-secret", "key": "hf_api_token"},
            "offline": {"enabled": False},
            "cache": {"volume": "data", "path": "huggingface"},
        },
        "tracking": {
            "tensorboard": {
                "enabled": False,
                "server": {"enabled": False, "volume": "data", "cpu": "2", "memory": "8Gi"},
            },
            "wandb": {
                "enabled": False,
                "project": "grpo",
                "name": "",
                "secret": {"name": "wandb-secret", "key": "api_key"},
            },
            "mlflow": {"enabled": False, "trackingUri": "", "experiment": "grpo", "name": ""},
        },
        "images": {"training": {"digest": "", "libraryPath": "", "minimumDriver": 0, "arm64": False}},
    },
    "required": ["stack", "platform", "accelerator", "network", "huggingface", "tracking", "images"],
    "properties": {
        "stack": {
            "type": "object",
            "required": ["labels", "names", "wiring"],
            "properties": {
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "names": {
                    "type": "object",
                    "required": ["cluster", "serviceAccount"],
                    "properties": {"cluster": {"type": "string"}, "serviceAccount": {"type": "string"}},
                    "additionalProperties": False,
                },
                "wiring": {
                    "type": "object",
                    "required": ["enabled"],
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "platform": {
            "type": "object",
            "required": ["kind", "projectId", "projectNumber", "capacity"],
            "properties": {
                "kind": {"type": "string", "enum": ["gke-standard", "gke-autopilot", "kubernetes"]},
                "projectId": {"type": "string"},
                "projectNumber": {"type": "string"},
                "capacity": {
                    "type": "object",
                    "required": ["kind", "reservation", "maxRunDurationSeconds", "placementPolicy"],
                    "properties": {
                        "kind": {
                            "type": "string",
                            "enum": ["on-demand", "spot", "flex-start", "queued", "reservation"],
                        },
                        "reservation": {"type": "string"},
                        "maxRunDurationSeconds": {"type": "integer"},
                        "placementPolicy": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "accelerator": {
            "type": "object",
            "required": [
                "name",
                "label",
                "machineType",
                "gpusPerNode",
                "interfaces",
                "hostPaths",
                "nccl",
                "libraryPath",
                "sharedMemory",
                "worker",
            ],
            "properties": {
                "name": {"type": "string"},
                "label": {"type": "string"},
                "machineType": {"type": "string"},
                "gpusPerNode": {"type": "integer"},
                "architecture": {"type": "string", "enum": ["amd64", "arm64"]},
                "nvlinkDomainNodes": {"type": "integer"},
                "refuses": {"type": "object", "additionalProperties": {"type": "string"}},
                "interfaces": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ["network", "deviceMode"],
                        "properties": {
                            "network": {"type": "string"},
                            "deviceMode": {"type": "string", "enum": ["NetDevice", "RDMA"]},
                        },
                        "additionalProperties": False,
                    },
                },
                "hostPaths": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ["hostPath", "mountPath"],
                        "properties": {"hostPath": {"type": "string"}, "mountPath": {"type": "string"}},
                        "additionalProperties": False,
                    },
                },
                "installerImage": {"type": "string"},
                "nccl": {
                    "type": "object",
                    "required": ["socketInterface"],
                    "properties": {
                        "net": {"type": "string"},
                        "environmentScript": {"type": "string"},
                        "tunerConfig": {"type": "string"},
                        "socketInterface": {"type": "string"},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "additionalProperties": False,
                },
                "libraryPath": {"type": "string"},
                "sharedMemory": {"type": "string"},
                "worker": {
                    "type": "object",
                    "required": ["cpu", "memory", "ephemeralStorage"],
                    "properties": {
                        "cpu": {"type": "string"},
                        "memory": {"type": "string"},
                        "ephemeralStorage": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "network": {
            "type": "object",
            "required": ["mode", "rdmaInstaller", "names", "gvnic", "rdma"],
            "properties": {
                "mode": {"type": "string", "enum": ["multiNetwork", "dranet", "none"]},
                "rdmaInstaller": {
                    "type": "object",
                    "required": ["enabled"],
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
                "names": {
                    "type": "object",
                    "required": ["prefix"],
                    "properties": {"prefix": {"type": "string"}},
                    "additionalProperties": False,
                },
                "gvnic": {
                    "type": "object",
                    "required": ["prefix", "vpc", "subnet"],
                    "properties": {
                        "prefix": {"type": "string"},
                        "vpc": {"type": "string"},
                        "subnet": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
                "rdma": {
                    "type": "object",
                    "required": ["prefix", "vpc", "subnets"],
                    "properties": {
                        "prefix": {"type": "string"},
                        "vpc": {"type": "string"},
                        "subnets": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "huggingface": {
            "type": "object",
            "required": ["secret", "offline", "cache"],
            "properties": {
                "secret": {
                    "type": "object",
                    "required": ["name", "key"],
                    "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
                    "additionalProperties": False,
                },
                "offline": {
                    "type": "object",
                    "required": ["enabled"],
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
                "cache": {
                    "type": "object",
                    "required": ["volume", "path"],
                    "properties": {"volume": {"type": "string"}, "path": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "tracking": {
            "type": "object",
            "required": ["tensorboard", "wandb", "mlflow"],
            "properties": {
                "tensorboard": {
                    "type": "object",
                    "required": ["enabled", "server"],
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "server": {
                            "type": "object",
                            "required": ["enabled", "volume", "cpu", "memory"],
                            "properties": {
                                "enabled": {"type": "boolean"},
                                "volume": {"type": "string"},
                                "cpu": {"type": "string"},
                                "memory": {"type": "string"},
                            },
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                },
                "wandb": {
                    "type": "object",
                    "required": ["enabled", "project", "name", "secret"],
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "project": {"type": "string"},
                        "name": {"type": "string"},
                        "secret": {
                            "type": "object",
                            "required": ["name", "key"],
                            "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                },
                "mlflow": {
                    "type": "object",
                    "required": ["enabled", "trackingUri", "experiment", "name"],
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "trackingUri": {"type": "string"},
                        "experiment": {"type": "string"},
                        "name": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "images": {
            "type": "object",
            "required": ["training"],
            "properties": {
                "training": {
                    "type": "object",
                    "required": ["digest", "libraryPath", "minimumDriver", "arm64"],
                    "properties": {
                        "repository": {"type": "string"},
                        "tag": {"type": "string"},
                        "digest": {"type": "string"},
                        "libraryPath": {"type": "string"},
                        "minimumDriver": {"type": "integer"},
                        "arm64": {"type": "boolean"},
                        "rayVersion": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    },
}
