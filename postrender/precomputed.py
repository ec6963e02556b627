"""What is worked out of schemas/ before any start; `make generate` writes this file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Schema and defaults of the sections that wiring follows from.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "propertyNames": {
        "enum": (
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
        ),
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
    "required": ("stack", "platform", "accelerator", "network", "huggingface", "tracking", "images"),
    "properties": {
        "stack": {
            "type": "object",
            "required": ("labels", "names", "wiring"),
            "properties": {
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "names": {
                    "type": "object",
                    "required": ("cluster", "serviceAccount"),
                    "properties": {"cluster": {"type": "string"}, "serviceAccount": {"type": "string"}},
                    "additionalProperties": False,
                },
                "wiring": {
                    "type": "object",
                    "required": ("enabled",),
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "platform": {
            "type": "object",
            "required": ("kind", "projectId", "projectNumber", "capacity"),
            "properties": {
                "kind": {"type": "string", "enum": ("gke-standard", "gke-autopilot", "kubernetes")},
                "projectId": {"type": "string"},
                "projectNumber": {"type": "string"},
                "capacity": {
                    "type": "object",
                    "required": ("kind", "reservation", "maxRunDurationSeconds", "placementPolicy"),
                    "properties": {
                        "kind": {
                            "type": "string",
                            "enum": ("on-demand", "spot", "flex-start", "queued", "reservation"),
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
            "required": (
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
            ),
            "properties": {
                "name": {"type": "string"},
                "label": {"type": "string"},
                "machineType": {"type": "string"},
                "gpusPerNode": {"type": "integer"},
                "architecture": {"type": "string", "enum": ("amd64", "arm64")},
                "nvlinkDomainNodes": {"type": "integer"},
                "refuses": {"type": "object", "additionalProperties": {"type": "string"}},
                "interfaces": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ("network", "deviceMode"),
                        "properties": {
                            "network": {"type": "string"},
                            "deviceMode": {"type": "string", "enum": ("NetDevice", "RDMA")},
                        },
                        "additionalProperties": False,
                    },
                },
                "hostPaths": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ("hostPath", "mountPath"),
                        "properties": {"hostPath": {"type": "string"}, "mountPath": {"type": "string"}},
                        "additionalProperties": False,
                    },
                },
                "installerImage": {"type": "string"},
                "nccl": {
                    "type": "object",
                    "required": ("socketInterface",),
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
                    "required": ("cpu", "memory", "ephemeralStorage"),
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
            "required": ("mode", "rdmaInstaller", "names", "gvnic", "rdma"),
            "properties": {
                "mode": {"type": "string", "enum": ("multiNetwork", "dranet", "none")},
                "rdmaInstaller": {
                    "type": "object",
                    "required": ("enabled",),
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
                "names": {
                    "type": "object",
                    "required": ("prefix",),
                    "properties": {"prefix": {"type": "string"}},
                    "additionalProperties": False,
                },
                "gvnic": {
                    "type": "object",
                    "required": ("prefix", "vpc", "subnet"),
                    "properties": {
                        "prefix": {"type": "string"},
                        "vpc": {"type": "string"},
                        "subnet": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
                "rdma": {
                    "type": "object",
                    "required": ("prefix", "vpc", "subnets"),
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
            "required": ("secret", "offline", "cache"),
            "properties": {
                "secret": {
                    "type": "object",
                    "required": ("name", "key"),
                    "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
                    "additionalProperties": False,
                },
                "offline": {
                    "type": "object",
                    "required": ("enabled",),
                    "properties": {"enabled": {"type": "boolean"}},
                    "additionalProperties": False,
                },
                "cache": {
                    "type": "object",
                    "required": ("volume", "path"),
                    "properties": {"volume": {"type": "string"}, "path": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        "tracking": {
            "type": "object",
            "required": ("tensorboard", "wandb", "mlflow"),
            "properties": {
                "tensorboard": {
                    "type": "object",
                    "required": ("enabled", "server"),
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "server": {
                            "type": "object",
                            "required": ("enabled", "volume", "cpu", "memory"),
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
                    "required": ("enabled", "project", "name", "secret"),
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "project": {"type": "string"},
                        "name": {"type": "string"},
                        "secret": {
                            "type": "object",
                            "required": ("name", "key"),
                            "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                },
                "mlflow": {
                    "type": "object",
                    "required": ("enabled", "trackingUri", "experiment", "name"),
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
            "required": ("training",),
            "properties": {
                "training": {
                    "type": "object",
                    "required": ("digest", "libraryPath", "minimumDriver", "arm64"),
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

# Patterns of secrets.
TOKENS: dict[str, str] = {
    "huggingface": "hf_[A-Za-z0-9]{16,}",
    "nvidia": "nvapi-[A-Za-z0-9_-]{16,}",
    "wandb": "wandb_v[0-9]+_[A-Za-z0-9_]{16,}",
    "wandbKey": "wandb_(?:api_)?key\\W+(?:value\\W+)?[0-9a-f]{40}\\b",
    "wandbEnvironment": "WANDB_API_KEY\\W+(?:value\\W+)?[0-9a-f]{40}\\b",
    "github": "gh[pousr]_[A-Za-z0-9]{30,}",
    "githubFineGrained": "github_pat_[A-Za-z0-9_]{30,}",
    "gitlab": "glpat-[A-Za-z0-9_-]{20,}",
    "openai": "\\bsk-[A-Za-z0-9_-]{32,}",
    "google": "AIza[A-Za-z0-9_-]{35}",
    "googleOauth": "ya29\\.[A-Za-z0-9_-]{20,}",
    "aws": "AKIA[A-Z0-9]{16}",
    "slack": "xox[abprs]-[A-Za-z0-9-]{10,}",
    "privateKey": "-----BEGIN [A-Z ]*PRIVATE KEY-----",
}

# What all matches begin with; texts of one length of which each match begins with one; whether a word must begin there;
# at least how many characters follow, and of which.
BEGINNINGS: dict[str, tuple[str, tuple[str, ...], bool, int, str | None]] = {
    "huggingface": ("hf_", ("hf_",), False, 16, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
    "nvidia": ("nvapi-", ("nvapi-",), False, 16, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
    "wandb": ("wandb_v", ("wandb_v",), False, 0, None),
    "wandbKey": ("wandb_", ("wandb_",), False, 0, None),
    "wandbEnvironment": ("WANDB_API_KEY", ("WANDB_API_KEY",), False, 0, None),
    "github": (
        "gh",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        False,
        30,
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    ),
    "githubFineGrained": (
        "github_pat_",
        ("github_pat_",),
        False,
        30,
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
    ),
    "gitlab": ("glpat-", ("glpat-",), False, 20, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
    "openai": ("sk-", ("sk-",), True, 32, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
    "google": ("AIza", ("AIza",), False, 35, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
    "googleOauth": ("ya29", ("ya29",), False, 0, None),
    "aws": ("AKIA", ("AKIA",), False, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
    "slack": (
        "xox",
        ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-"),
        False,
        10,
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-",
    ),
    "privateKey": ("-----BEGIN", ("-----BEGIN",), False, 0, None),
}

# Names of patterns by a text that all their matches begin with.
GROUPS: dict[str, tuple[str, ...]] = {
    "gh": ("github",),
    "hf_": ("huggingface",),
    "sk-": ("openai",),
    "xox": ("slack",),
    "AIza": ("google",),
    "ya29": ("googleOauth",),
    "AKIA": ("aws",),
    "nvapi-": ("nvidia",),
    "wandb_": ("wandbKey", "wandb"),
    "glpat-": ("gitlab",),
    "-----BEGIN": ("privateKey",),
    "github_pat_": ("githubFineGrained",),
    "WANDB_API_KEY": ("wandbEnvironment",),
}
