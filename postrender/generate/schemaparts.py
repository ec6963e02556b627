"""Parts of schemas of which the refinements are made: shapes of names, of amounts, of schedules; conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

# The blanks that the API server cuts off a quantity: it sees others as JSON writes them, with a backslash.
_BLANKS = r"[ \x85\xa0]*"
_UNIT = f"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?{_BLANKS}$"
QUANTITY = rf"^{_BLANKS}[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+){_UNIT}"
AMOUNT = rf"^{_BLANKS}([+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)|-(0+(\.0*)?|\.0+)){_UNIT}"
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
PORT_NAME: Schema = {
    "description": "lower-case letters, digits and '-', at most 15, one of them a letter",
    "maxLength": 15,
    "pattern": PORT_PATTERN,
}
PORT: Schema = {"minimum": 1, "maximum": 65535}
FILE_NAME: Schema = {
    "description": "a key of letters, digits, '-', '_' and '.'",
    "maxLength": 253,
    "pattern": "^[-._a-zA-Z0-9]+$",
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
        "pattern": AMOUNT,
    },
    "positive": {
        "description": "a quantity such as 900Gi, 500m or 2, above 0",
        "type": ["string", "number"],
        "exclusiveMinimum": 0,
        "pattern": rf"^{_BLANKS}[+]?(0*[1-9][0-9]*(\.[0-9]*)?|0*\.0*[1-9][0-9]*){_UNIT}",
    },
    "share": {
        "description": "a number, or a share such as 25%",
        "type": ["integer", "string", "null"],
        "minimum": 0,
        "pattern": "^[0-9]+%$",
    },
    "part": {
        "description": "a number, or a share from 0% to 100%",
        "type": ["integer", "string", "null"],
        "minimum": 0,
        "pattern": "^0*(100|[0-9]{1,2})%$",
    },
    "port": {**PORT_NAME, "type": ["integer", "string"], **PORT, "pattern": PORT_PATTERN.replace(")?$", ")$")},
    # What says that a container lives need not say it twice; what says that it is ready ends none.
    "once": {"allOf": [{"$ref": "#/$defs/core.v1.Probe"}, {"properties": {"successThreshold": {"maximum": 1}}}]},
    "readiness": {
        "allOf": [
            {"$ref": "#/$defs/core.v1.Probe"},
            {"properties": {"terminationGracePeriodSeconds": {"enum": [None]}}},
        ]
    },
    # What ends before the others start is not asked whether it lives.
    "starting": {
        "type": ["array", "null"],
        "items": {
            "allOf": [
                {"$ref": "#/$defs/core.v1.Container"},
                {
                    "if": {"required": ["restartPolicy"], "properties": {"restartPolicy": {"const": "Always"}}},
                    "else": {
                        "properties": {
                            each: {"enum": [None]}
                            for each in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
                        }
                    },
                },
            ]
        },
    },
    # A claim of a StatefulSet is a volume of its pods too, whose name has no dots.
    "claims": {
        "type": ["array", "null"],
        "items": {
            "allOf": [
                {"$ref": "#/$defs/core.v1.PersistentVolumeClaim"},
                {
                    "required": ["metadata", "spec"],
                    "properties": {
                        "metadata": {"required": ["name"], "properties": {"name": {"$ref": "#/$defs/label"}}},
                        "spec": {"type": "object"},
                    },
                },
            ]
        },
    },
    "portOrName": {
        "description": "a number, or a name of lower-case letters, digits and '-', at most 15, one of them a letter",
        "type": ["integer", "string", "null"],
        "maxLength": 15,
        "pattern": f"({PORT_PATTERN})",
    },
    "anyName": {"type": "string", "minLength": 1},
    "keyName": {"type": "string", **FILE_NAME},
    # Bundles of a signer are called after it: SIGNER:NAME, where its '/' is another ':'.
    "bundleName": {
        "description": "a name as others have it, behind 'DOMAIN:PATH:' for the bundle of the signer DOMAIN/PATH",
        "type": "string",
        "pattern": f"^({SUBDOMAIN[1:-1]}:{SUBDOMAIN[1:-1]}:)?{SUBDOMAIN[1:-1]}$",
    },
    "pathSegment": {
        "description": "a name without '/' and '%'",
        "type": "string",
        "minLength": 1,
        "pattern": "^[^/%]+$",
    },
}

KEY: Schema = {
    "propertyNames": {
        "description": "a key: NAME or PREFIX/NAME, NAME of at most 63 letters, digits, '-', '_' and '.'",
        "pattern": "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
    }
}
QUALIFIED: Schema = {
    "description": "a key: NAME or PREFIX/NAME, NAME of at most 63 letters, digits, '-', '_' and '.'",
    "pattern": f"^({SUBDOMAIN[1:-1]}/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$",
}
LABEL_KEY: Schema = {"propertyNames": QUALIFIED}
FILE_KEY: Schema = {"propertyNames": FILE_NAME}
COUNT: Schema = {"minimum": 0}
# A selector that selects.
OWN: Schema = {
    "type": "object",
    "required": ["matchLabels"],
    "properties": {"matchLabels": {"type": "object", "minProperties": 1}},
}


def one_of(*fields: str) -> Schema:
    """Return what an object with exactly one of these fields fits, each of which is an object."""
    forms = [{"required": [each], "properties": {each: {"type": "object"}}} for each in fields]
    return {"if": {"type": "object"}, "then": {"oneOf": forms}}


def where(field: str, value: Schema, then: Schema) -> Schema:
    """Return what is so where a field is there and has such a value."""
    return {"if": {"required": [field], "properties": {field: value}}, "then": then}


def of_secret(kind: str, *keys: str, least: int = 0) -> Schema:
    """Return what is so of a Secret of a type: it has these keys, each as base64 or as plain text.

    `least` is how many characters stand at each.
    """
    return where("type", {"const": kind}, {"allOf": [{"anyOf": _forms(key, least)} for key in keys]})


def of_basic_auth() -> Schema:
    """Return what is so of a Secret with a name and a password: it has one of them."""
    forms = [form for key in ("username", "password") for form in _forms(key, 0)]
    return where("type", {"const": "kubernetes.io/basic-auth"}, {"anyOf": forms})


def _forms(key: str, least: int) -> list[Schema]:
    value: Schema = {"type": "string", "minLength": least} if least else {}
    keyed = {"type": "object", "required": [key], "properties": {key: value}}
    return [{"required": [at], "properties": {at: keyed}} for at in ("data", "stringData")]


def of_type(name: str, **then: Schema) -> Schema:
    """Return what the fields are where `type` has this name."""
    return where("type", {"const": name}, {"properties": then})


PROTOCOLS = ["TCP", "UDP", "SCTP"]
ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
RESTART = ["Always", "OnFailure", "Never"]
LABEL_VALUE: Schema = {
    "description": "a label value: letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
    "maxLength": 63,
    "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
}

# Of what may be a number or a share: none, and more than none.
NONE: Schema = {"description": "0 or 0%", "type": ["integer", "string"], "maximum": 0, "pattern": "^0+%$"}
SOME: Schema = {"description": "more than 0 or 0%", "type": ["integer", "string"], "minimum": 1, "pattern": "[1-9]"}
# Pods of a DaemonSet are replaced by taking them away first, or by adding others first.
ROLLING_DAEMONS = [
    {"properties": {each: {"$ref": "#/$defs/part"} for each in ("maxSurge", "maxUnavailable")}},
    where("maxSurge", SOME, {"required": ["maxUnavailable"], "properties": {"maxUnavailable": NONE}}),
    where("maxUnavailable", NONE, {"required": ["maxSurge"], "properties": {"maxSurge": SOME}}),
]
UNSET: Schema = {"enum": [None]}
ONCE_ALONE: Schema = {
    "if": {"contains": {"const": "ReadWriteOncePod"}},
    "then": {"items": {"enum": ["ReadWriteOncePod"]}},
}
OTHER_NAME: Schema = {each: NAME[each] for each in ("description", "maxLength", "pattern")}
OPTIONAL_NAME: Schema = {
    "description": "lower-case letters, digits, '-' and '.'",
    "maxLength": 253,
    "pattern": f"^({SUBDOMAIN[1:-1]})?$",
}

CLUSTER_IP: Schema = {
    "description": "None, or an IP address",
    "pattern": r"^(None|([0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)?$",
}
# Who the token is for, without which it would never be made.
TOKEN: Schema = {
    "required": ["metadata"],
    "properties": {
        "metadata": {
            "required": ["annotations"],
            "properties": {"annotations": {"type": "object", "required": ["kubernetes.io/service-account.name"]}},
        }
    },
}

_VALUES: Schema = {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}}
# What is there, or is not, has no value.
_NO_VALUES = where("operator", {"enum": ["Exists", "DoesNotExist"]}, {"properties": {"values": {"maxItems": 0}}})
AMONG = [where("operator", {"enum": ["In", "NotIn"]}, _VALUES), _NO_VALUES]
ONE_VALUE = where(
    "operator",
    {"enum": ["Gt", "Lt"]},
    {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1, "maxItems": 1}}},
)
WEIGHT: Schema = {"minimum": 1, "maximum": 100}

TEMPLATE = "#/$defs/core.v1.PodTemplateSpec"
# A policy for failed pods needs them to stay as they are.
LEFT: Schema = {"properties": {"restartPolicy": {"enum": ["Never"]}}}
# What stays is started again, what ends must say what happens when it fails.
ALWAYS: Schema = {
    "properties": {"restartPolicy": {"enum": ["", "Always", None]}, "activeDeadlineSeconds": UNSET},
}
ENDING: Schema = {"required": ["restartPolicy"], "properties": {"restartPolicy": {"enum": ["OnFailure", "Never"]}}}


def _names(words: str) -> str:
    """Return the pattern of some words in any letter case, which compiles in half the time of `(?i:)`."""
    return "|".join("".join(f"[{each}{each.upper()}]" for each in word) for word in words.split())


def _times(one: str) -> str:
    """Return the pattern of one field of a schedule; that a range does not end before it begins is not in it."""
    part = rf"([*?](-[^/,\t-\r \x85\xa0]*)?|{one}(-{one})?)(/[+]?0*[1-9][0-9]*)?"
    return f"(,*{part}(,+{part})*,*|,+)"


_DURATION = r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|m|s|ms|us|\u00b5s|\u03bcs|ns))+)"
# `\s` takes a millisecond to compile.
_BLANK = r"[\t-\r \x85\xa0]"
_MONTHS = _names("jan feb mar apr may jun jul aug sep oct nov dec")
_DAYS = _names("sun mon tue wed thu fri sat")
_FIELDS = (
    _times("[+]?0*[0-5]?[0-9]"),
    _times("[+]?0*(1?[0-9]|2[0-3])"),
    _times("[+]?0*([1-9]|[12][0-9]|3[01])"),
    _times(f"([+]?0*([1-9]|1[0-2])|{_MONTHS})"),
    _times(f"([+]?0*[0-6]|{_DAYS})"),
)
SCHEDULE: Schema = {
    "description": "minute, hour, day, month and weekday, 0 to 6, as in '0 6 * * 1-5', or @hourly, @daily, @every 6h",
    "pattern": "^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)"
    + f"|@every {_DURATION}|{_BLANK}*{f'{_BLANK}+'.join(_FIELDS)}{_BLANK}*)$",
}
TIME_ZONE: Schema = {
    "description": "a name such as Europe/Paris or Etc/UTC",
    "pattern": "^[A-Za-z_0-9+][-A-Za-z_0-9+]{0,13}(/[A-Za-z_0-9+][-A-Za-z_0-9+]{0,13})*$",
}
NO_DOTS: Schema = {
    "description": "lower-case letters, digits and '-', starting and ending with a letter or digit",
    "maxLength": 63,
    "pattern": f"^({LABEL[1:-1]})?$",
}
