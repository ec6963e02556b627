"""RayService fields that must be consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.ray.duration import nanoseconds
from grpo.problems.ray.duration import number as whole
from grpo.problems.ray.rayspec import EVENT_ONLY, VALIDATION, Cluster, annotations_of, each_cluster, each_of, number
from postrender.errors import InputError
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.yaml import reader

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found
    from postrender.gate.manifests import Item
    from postrender.types import Json

_EACH: Final = each_of("RayService")
_GRADUAL: Final = "NewClusterWithIncrementalUpgrade"
_OPTIONS: Final = ("spec", "upgradeStrategy", "clusterUpgradeOptions")
_TIMEOUT: Final = "ray.io/initializing-timeout"
_MOST: Final = 2**31 - 1
# The least and the most that each of these may be.
_PERCENT: Final = (0, 100)
_BOUNDS: Final = {"maxSurgePercent": _PERCENT, "stepSizePercent": _PERCENT, "intervalSeconds": (1, _MOST)}
_DELAY: Final = "rayClusterDeletionDelaySeconds"


def _spec(item: Item) -> dict[str, Any]:
    return mapping(item.object.get("spec"))


def _is_gradual(item: Item) -> bool:
    return mapping(_spec(item).get("upgradeStrategy")).get("type") == _GRADUAL


def _options(item: Item) -> Json:
    return mapping(_spec(item).get("upgradeStrategy")).get("clusterUpgradeOptions")


def _numbers(item: Item) -> Found:
    delay = number(_spec(item).get(_DELAY))
    if delay is not None and delay < 0:
        yield ("spec", _DELAY), f"{_DELAY} is {delay}, and 0 is the least"
    for key, (least, most) in _BOUNDS.items() if _is_gradual(item) else ():
        value = number(mapping(_options(item)).get(key))
        if value is not None and not least <= value <= most:
            bound = f"{least} is the least" if value < least else f"{most} is the most"
            yield (*_OPTIONS, key), f"{key} is {value}, and {bound}"


def _lacks(item: Item) -> Found:
    if not _is_gradual(item):
        return
    cluster = _spec(item).get("rayClusterConfig")
    if isinstance(cluster, dict) and cluster.get("enableInTreeAutoscaling") is not True:
        yield _OPTIONS[:-1], f"the upgrade is {_GRADUAL}, and enableInTreeAutoscaling is not true"
    if _options(item) is None:
        yield _OPTIONS[:-1], f"the upgrade is {_GRADUAL}, and there are no clusterUpgradeOptions"
    elif mapping(_options(item)).get("gatewayClassName") == "":
        yield (*_OPTIONS, "gatewayClassName"), "gatewayClassName is empty"


def _unused(item: Item) -> Found:
    if _options(item) is not None and not _is_gradual(item):
        kind = mapping(_spec(item).get("upgradeStrategy")).get("type") or "not set"
        yield _OPTIONS, f"there are clusterUpgradeOptions, and the type of the upgrade is {kind}"


def _timeout(item: Item) -> Found:
    text = annotations_of(item).get(_TIMEOUT)
    if isinstance(text, str) and text:
        length = nanoseconds(text)
        if ((whole(text) if length is None else length) or 0) <= 0:
            yield ("metadata", "annotations", _TIMEOUT), f"{_TIMEOUT} is {text}, which is not a time above zero"


def _named(cluster: Cluster) -> Found:
    name = mapping(mapping(cluster.head.spec.get("headService")).get("metadata")).get("name")
    if name and cluster.owner == "RayService":
        yield (*cluster.head.path, "headService", "metadata", "name"), f"the service of the head is called {name}"


def _port(cluster: Cluster) -> Found:
    if cluster.owner != "RayService":
        return
    names = [str(mapping(port).get("name") or "") for port in sequence(cluster.head.ray.get("ports"))]
    own = _spec(cluster.item).get("serveService") is not None and not _is_gradual(cluster.item)
    if names and not own and not any(name == "serve" or name.startswith("serve-") for name in names):
        yield (*cluster.head.ray_path, "ports"), "the head declares ports, and none is called serve"


def _applications(item: Item) -> Found:
    text = _spec(item).get("serveConfigV2")
    if text is None or isinstance(text, str):
        reason = _wrong(text or "")
        if reason:
            yield ("spec", *(("serveConfigV2",) if text else ())), reason


def _wrong(text: str) -> str:
    """Return what is wrong with a service's applications; an empty text if they are valid."""
    try:
        roots = reader.parse(text.encode("utf-8"), "serveConfigV2")
    except UnicodeEncodeError:
        return "serveConfigV2 is no text"
    except InputError as error:
        return f"serveConfigV2 cannot be read: {error.message}"
    config = roots[0].plain() if roots else None
    if not isinstance(config, dict | None):
        return "serveConfigV2 is no map"
    given = mapping(config).get("applications")
    if not isinstance(given, list):
        return "serveConfigV2 has no list of applications"
    return next(filter(None, (_path(mapping(each)) for each in given)), "") or _twice([*map(mapping, given)])


def _path(application: dict[str, Any]) -> str:
    has = isinstance(application.get("import_path"), str)
    return "" if has else f"the application {application.get('name', 'default')} has no import_path"


def _twice(applications: list[dict[str, Any]]) -> str:
    # Ray's defaults.
    for key, default in (("name", "default"), ("route_prefix", "/")):
        seen: set[str] = set()
        for each in applications:
            value = each.get(key, default)
            if isinstance(value, str) and value in seen:
                return f"two applications have the {key} {value}"
            seen.add(str(value))
    return ""


RULES = (
    Problem(
        "ray/service-number",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a number of a RayService is out of range",
        why=EVENT_ONLY,
        fix="write a number in the range, or remove the field",
        source=VALIDATION,
        check=_EACH(_numbers),
    ),
    Problem(
        "ray/incremental-upgrade",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="an incremental upgrade lacks the autoscaler, its options, or a gateway class",
        why=EVENT_ONLY,
        fix="set enableInTreeAutoscaling: true and write clusterUpgradeOptions, or use type: NewCluster",
        source=VALIDATION,
        check=_EACH(_lacks),
    ),
    Problem(
        "ray/upgrade-options-unused",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a RayService has clusterUpgradeOptions, but its type of upgrade does not read them",
        why="the operator reads them only for an incremental upgrade, and switches to the new cluster at once",
        fix="write type: NewClusterWithIncrementalUpgrade, or remove clusterUpgradeOptions",
        source=VALIDATION,
        check=_EACH(_unused),
    ),
    Problem(
        "ray/initializing-timeout",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the initializing timeout of a RayService is not a time above zero",
        why=EVENT_ONLY,
        fix="write a time such as 30m or 1h30m, or a number of seconds",
        source=VALIDATION,
        check=_EACH(_timeout),
    ),
    Problem(
        "ray/head-service-named",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="a RayService sets the name of its head service",
        why=EVENT_ONLY,
        fix="remove headService.metadata.name: each new cluster of the service needs another name",
        source=VALIDATION,
        check=each_cluster(_named),
    ),
    Problem(
        "ray/serve-port-missing",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="the head of a RayService declares ports, but none for its applications",
        why="the operator creates no Service for it, so the applications run and cannot be reached",
        fix="add port 8000 with the name serve, or declare no ports: the operator then uses its defaults",
        source="kuberay/ray-operator/controllers/ray/common/service.go at v1.6.2",
        check=each_cluster(_port),
    ),
    Problem(
        "ray/serve-config",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_SETUP,
        title="the configuration of a RayService's applications is not valid",
        why="Ray refuses them at each attempt, after the cluster with its GPUs has started",
        fix="write applications: a list, each entry with its own name, import_path and route_prefix",
        source="https://docs.ray.io/en/latest/serve/api/doc/ray.serve.schema.ServeDeploySchema.html",
        check=_EACH(_applications),
    ),
)
