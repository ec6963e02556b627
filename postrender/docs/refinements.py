"""What the API server checks and the OpenAPI document leaves out: shapes of names, ranges, sets of words, keys of maps.

tests/e2e/test_check.py compares with a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

QUANTITY = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_SIGN = r"[A-Za-z0-9+/][\r\n]*"
BASE64 = rf"^[\r\n]*(({_SIGN}){{4}})*(({_SIGN}){{2}}=[\r\n]*=|({_SIGN}){{3}}=)?[\r\n]*$"
PORT_PATTERN = "^(([0-9]+-?)*[a-z](-?[a-z0-9])*)?$"
NAME: Schema = {
    "description": "lower-case letters, digits, '-' and '.', each part starting and ending with a letter or digit",
    "type": "string",
    "maxLength": 253,
    "pattern": SUBDOMAIN,
}
# The descriptions are what a person reads when a pattern does not match.
SHAPES: Mapping[str, Schema] = {
    "api.resource.Quantity": {
        "description": "a quantity such as 900Gi, 500m or 2",
        "type": ["string", "number", "null"],
        "pattern": QUANTITY,
    },
    "util.intstr.IntOrString": {"type": ["integer", "string", "null"]},
    "label": {
        "description": "lower-case letters, digits and '-', starting and ending with a letter or digit",
        "type": "string",
        "maxLength": 63,
        "pattern": LABEL,
    },
    "label1035": {
        "description": "lower-case letters, digits and '-', starting with a letter and not ending with '-'",
        "type": "string",
        "maxLength": 63,
        "pattern": LABEL_1035,
    },
    "subdomain": NAME,
    # Pods carry the name of their job in a label, and a job of a CronJob is called after it, with 11 characters more.
    "jobName": {**NAME, "maxLength": 63},
    "cronJobName": {**NAME, "maxLength": 52},
    "amount": {
        "description": "a quantity such as 900Gi, 500m or 2, not below 0",
        "type": ["string", "number", "null"],
        "minimum": 0,
        "pattern": QUANTITY.replace("[+-]?", "[+]?", 1),
    },
    "portOrName": {
        "description": "a number, or a name of lower-case letters, digits and '-', at most 15, one of them a letter",
        "type": ["integer", "string", "null"],
        "maxLength": 15,
        "pattern": f"({PORT_PATTERN})",
    },
    "anyName": {"type": "string", "minLength": 1},
    "pathSegment": {
        "description": "a name without '/' and '%'",
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[^/%]+$",
    },
}

KEY: Schema = {
    "propertyNames": {
        "description": "a key: NAME or PREFIX/NAME, NAME of at most 63 letters, digits, '-', '_' and '.'",
        "pattern": "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
    }
}
LABEL_KEY: Schema = {
    "propertyNames": {
        "description": "a key: NAME or PREFIX/NAME, NAME of at most 63 letters, digits, '-', '_' and '.'",
        "pattern": f"^({SUBDOMAIN[1:-1]}/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$",
    }
}
FILE_KEY: Schema = {
    "propertyNames": {
        "description": "a key of letters, digits, '-', '_' and '.'",
        "maxLength": 253,
        "pattern": "^[-._a-zA-Z0-9]+$",
    }
}
PORT_NAME: Schema = {
    "description": "lower-case letters, digits and '-', at most 15, one of them a letter",
    "maxLength": 15,
    "pattern": PORT_PATTERN,
}
COUNT: Schema = {"minimum": 0}
# A selector that selects.
OWN: Schema = {
    "type": "object",
    "required": ["matchLabels"],
    "properties": {"matchLabels": {"type": "object", "minProperties": 1}},
}
PROBE: Schema = {"anyOf": [{"required": [each]} for each in ("exec", "grpc", "httpGet", "tcpSocket")]}
PORT: Schema = {"minimum": 1, "maximum": 65535}
PROTOCOLS = ["TCP", "UDP", "SCTP"]
ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
RESTART = ["Always", "OnFailure", "Never"]
LABEL_VALUE: Schema = {
    "description": "a label value: letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
    "maxLength": 63,
    "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
}

TEMPLATE = "#/$defs/core.v1.PodTemplateSpec"
# What stays is started again, what ends must say what happens when it fails.
ALWAYS: Schema = {"properties": {"restartPolicy": {"enum": ["", "Always", None]}}}
ENDING: Schema = {"required": ["restartPolicy"], "properties": {"restartPolicy": {"enum": ["OnFailure", "Never"]}}}
SCHEDULE: Schema = {
    "description": "five fields, as in '0 6 * * 1-5', or @hourly, @daily, @weekly, @monthly, @yearly, @every 6h",
    "pattern": r"^\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|\S+(\s+\S+){4})\s*$",
}
NO_DOTS: Schema = {
    "description": "lower-case letters, digits and '-', starting and ending with a letter or digit",
    "maxLength": 63,
    "pattern": f"^({LABEL[1:-1]})?$",
}

# What the API server checks and the OpenAPI document leaves out. `[]` is an item, `{}` an entry of a map. An empty
# text is one of the values where the API server writes the default in its place.
REFINEMENTS: Mapping[str, Schema] = {
    "apps.v1.DaemonSetSpec template": {"allOf": [{"$ref": TEMPLATE}, {"properties": {"spec": ALWAYS}}]},
    "apps.v1.DeploymentSpec replicas": COUNT,
    "apps.v1.DeploymentSpec template": {"allOf": [{"$ref": TEMPLATE}, {"properties": {"spec": ALWAYS}}]},
    "apps.v1.DeploymentStrategy type": {"enum": ["", "Recreate", "RollingUpdate"]},
    "apps.v1.StatefulSetSpec podManagementPolicy": {"enum": ["", "OrderedReady", "Parallel"]},
    "apps.v1.StatefulSetSpec replicas": COUNT,
    "apps.v1.StatefulSetSpec template": {"allOf": [{"$ref": TEMPLATE}, {"properties": {"spec": ALWAYS}}]},
    "batch.v1.JobSpec": {
        "allOf": [
            {
                "if": {"required": ["selector"], "properties": {"selector": OWN}},
                "then": {"required": ["manualSelector"]},
            },
            {
                "if": {
                    "required": ["backoffLimitPerIndex"],
                    "properties": {"backoffLimitPerIndex": {"type": "integer"}},
                },
                "then": {"required": ["completionMode"]},
            },
        ]
    },
    "batch.v1.JobSpec activeDeadlineSeconds": COUNT,
    "batch.v1.JobSpec backoffLimit": COUNT,
    "batch.v1.JobSpec completions": COUNT,
    "batch.v1.JobSpec parallelism": COUNT,
    "batch.v1.JobSpec template": {"allOf": [{"$ref": TEMPLATE}, {"properties": {"spec": ENDING}}]},
    "batch.v1.JobSpec ttlSecondsAfterFinished": COUNT,
    "batch.v1.CronJobSpec schedule": SCHEDULE,
    "batch.v1.CronJobSpec concurrencyPolicy": {"enum": ["", "Allow", "Forbid", "Replace"]},
    "batch.v1.JobSpec completionMode": {"enum": ["NonIndexed", "Indexed"]},
    "core.v1.Container": {"required": ["name", "image"]},
    "core.v1.ConfigMap binaryData": FILE_KEY,
    "core.v1.ConfigMap binaryData {}": {
        "description": "base64 text; plain text stands in stringData, of a ConfigMap in data",
        "pattern": BASE64,
    },
    "core.v1.ConfigMap data": FILE_KEY,
    "core.v1.Container image": {"description": "a text without blanks around it", "pattern": r"^\S(.*\S)?$"},
    "core.v1.Container imagePullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
    "core.v1.Container name": {"$ref": "#/$defs/label"},
    "core.v1.ContainerPort containerPort": PORT,
    "core.v1.ContainerPort name": PORT_NAME,
    "core.v1.ContainerPort protocol": {"enum": ["", *PROTOCOLS]},
    "core.v1.EmptyDirVolumeSource medium": {"pattern": "^(Memory|HugePages(-.+)?)?$"},
    "core.v1.EmptyDirVolumeSource sizeLimit": {"$ref": "#/$defs/amount"},
    "core.v1.EnvVar name": {"minLength": 1, "pattern": "^[^=]+$"},
    "core.v1.HostPathVolumeSource path": {"minLength": 1},
    "core.v1.HostPathVolumeSource type": {
        "enum": ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"]
    },
    "core.v1.PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "core.v1.PersistentVolumeClaimSpec accessModes": {"minItems": 1},
    "core.v1.PersistentVolumeClaimSpec storageClassName": {
        "description": "lower-case letters, digits, '-' and '.'",
        "pattern": f"^({SUBDOMAIN[1:-1]})?$",
    },
    "core.v1.PersistentVolumeClaimSpec volumeMode": {"enum": ["", "Block", "Filesystem"]},
    "core.v1.PersistentVolumeClaimSpec accessModes []": {"enum": ACCESS_MODES},
    "core.v1.PersistentVolumeSpec": {"required": ["accessModes", "capacity"]},
    "core.v1.PersistentVolumeSpec accessModes []": {"enum": ACCESS_MODES},
    "core.v1.PersistentVolumeSpec persistentVolumeReclaimPolicy": {"enum": ["", "Retain", "Delete", "Recycle"]},
    "core.v1.PodSpec activeDeadlineSeconds": {"minimum": 1, "maximum": 2147483647},
    "core.v1.PodSpec hostname": NO_DOTS,
    "core.v1.PodSpec nodeSelector": LABEL_KEY,
    "core.v1.PodSpec nodeSelector {}": LABEL_VALUE,
    "core.v1.PodSpec subdomain": NO_DOTS,
    "core.v1.PodSpec containers": {"minItems": 1},
    "core.v1.PodSpec dnsPolicy": {"enum": ["", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]},
    "core.v1.PodSpec preemptionPolicy": {"enum": ["Never", "PreemptLowerPriority"]},
    "core.v1.Probe": PROBE,
    "core.v1.Probe failureThreshold": COUNT,
    "core.v1.Probe initialDelaySeconds": COUNT,
    "core.v1.Probe periodSeconds": COUNT,
    "core.v1.Probe successThreshold": COUNT,
    "core.v1.Probe timeoutSeconds": COUNT,
    "core.v1.PodSpec restartPolicy": {"enum": ["", *RESTART]},
    "core.v1.ResourceRequirements limits {}": {"$ref": "#/$defs/amount"},
    "core.v1.ResourceRequirements requests {}": {"$ref": "#/$defs/amount"},
    "core.v1.Secret data": FILE_KEY,
    "core.v1.Secret stringData": FILE_KEY,
    "core.v1.ServicePort name": NO_DOTS,
    "core.v1.ServicePort targetPort": {"$ref": "#/$defs/portOrName"},
    "core.v1.ServiceSpec": {
        "if": {"required": ["type"], "properties": {"type": {"const": "ExternalName"}}},
        "then": {"required": ["externalName"]},
    },
    "core.v1.ServiceSpec selector": LABEL_KEY,
    "core.v1.ServiceSpec sessionAffinity": {"enum": ["", "None", "ClientIP"]},
    "core.v1.Secret data {}": {
        "description": "base64 text; plain text stands in stringData, of a ConfigMap in data",
        "pattern": BASE64,
    },
    "core.v1.ServicePort port": PORT,
    "core.v1.ServicePort protocol": {"enum": ["", *PROTOCOLS]},
    "core.v1.ServiceSpec type": {"enum": ["", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]},
    "core.v1.Toleration": {
        "if": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
        "then": {"properties": {"value": {"enum": ["", None]}}},
    },
    "core.v1.Toleration effect": {"enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]},
    "core.v1.Toleration operator": {"enum": ["", "Exists", "Equal"]},
    "core.v1.TopologySpreadConstraint maxSkew": {"minimum": 1},
    "core.v1.TopologySpreadConstraint whenUnsatisfiable": {"enum": ["DoNotSchedule", "ScheduleAnyway"]},
    "core.v1.Volume name": {"$ref": "#/$defs/label"},
    "core.v1.VolumeMount mountPath": {"minLength": 1},
    "core.v1.VolumeMount mountPropagation": {"enum": ["None", "HostToContainer", "Bidirectional"]},
    "meta.v1.LabelSelectorRequirement operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "core.v1.VolumeResourceRequirements requests": {"required": ["storage"]},
    "core.v1.VolumeResourceRequirements requests {}": {"$ref": "#/$defs/amount"},
    "meta.v1.LabelSelector matchLabels": LABEL_KEY,
    "meta.v1.LabelSelector matchLabels {}": LABEL_VALUE,
    "meta.v1.ObjectMeta annotations": KEY,
    "meta.v1.ObjectMeta labels": LABEL_KEY,
    "meta.v1.ObjectMeta labels {}": LABEL_VALUE,
    "networking.v1.NetworkPolicyPort protocol": {"enum": PROTOCOLS},
    "networking.v1.NetworkPolicySpec policyTypes []": {"enum": ["Ingress", "Egress"]},
    "storage.v1.StorageClass reclaimPolicy": {"enum": ["Retain", "Delete"]},
    "storage.v1.StorageClass volumeBindingMode": {"enum": ["Immediate", "WaitForFirstConsumer"]},
}
