"""Every object is valid according to its kind's schema, as defined by Kubernetes and the operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.kubernetes.found import found
from grpo.problems.ray import refused
from postrender.finding import ERROR, INFO, Finding, Place
from postrender.manifests.schemas import kind_of
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.mutations import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item, Manifests
    from postrender.manifests.violations import Violation

# Files for kustomize, which are not sent to a cluster.
_NO_OBJECTS: Final = ("kustomize.config.k8s.io/", "config.kubernetes.io/")


def _fields(manifests: Manifests) -> Iterator[Finding]:
    for item, violation in manifests.violations():
        if violation.unknown:
            what = f"{dotted(violation.path)} is not a field of {_kind(item)}"
            near = f"; did you mean {violation.near}?" if violation.near else ""
            yield item.finding(violation.path, f"{what}{near}", of_key=True)


def _values(manifests: Manifests) -> Iterator[Finding]:
    yield from _lists(manifests)
    for item, violation in manifests.violations():
        if not violation.unknown:
            yield _refused(item, violation)


def _refused(item: Item, violation: Violation) -> Finding:
    path, where = violation.path, dotted(violation.path)
    if violation.missing:
        what = f"{dotted((*path, violation.missing))} is missing"
    elif now := found(item, violation):
        what = f"{where} {now}, {violation.message}"
    else:
        what = f"{where}: {violation.message}" if path else violation.message
    return item.finding(path, what)._replace(why=refused.why(item, violation))


def _lists(manifests: Manifests) -> Iterator[Finding]:
    # The items of a valid List are separate objects here.
    for item in manifests.of_kinds(("List", "None")):
        if not item.object:
            yield Finding("this item of a List is not an object", place=Place(item.document, item.path))
        elif item.object.get("kind") == "List" and item.object.get("apiVersion") == "v1":
            yield Finding("this List has no list of items", place=Place(item.document, (*item.path, "items")))


def _kind(item: Item) -> str:
    return str(item.object.get("kind"))


def _absent(manifests: Manifests) -> Iterator[Finding]:
    kinds = manifests.kinds
    for item in manifests.unknown() if kinds else ():
        version, kind = item.object.get("apiVersion"), item.object.get("kind")
        if not item.object or (kind == "List" and version == "v1"):
            # _lists reports it.
            continue
        if not isinstance(kind, str) or not kind:
            yield item.finding(("kind",), "this object has no kind")
        elif not isinstance(version, str) or not version:
            yield item.finding(
                ("apiVersion",), f"the apiVersion of this {kind} is {'not a string' if version else 'missing'}"
            )
        elif kinds and kinds.is_of_kubernetes(version):
            others = ", ".join(kinds.elsewhere(kind))
            hint = f"but has it in {others}" if others else "nor in any other group"
            what = f"Kubernetes 1.{kinds.version} has no {kind} in {version}, {hint}"
            yield item.finding(("apiVersion" if others else "kind",), what)


def _unjudged(manifests: Manifests) -> Iterator[Finding]:
    kinds = manifests.kinds
    found: dict[str, list[Item]] = {}
    for item in manifests.unknown() if kinds else ():
        version = item.object.get("apiVersion")
        own = isinstance(version, str) and version.startswith(_NO_OBJECTS)
        if kinds and isinstance(version, str) and version and not own and not kinds.is_of_kubernetes(version):
            found.setdefault(kind_of(item.object), []).append(item)
    for kind, items in found.items():
        version, _, name = kind.rpartition("/")
        others = len(items) - 1
        more = f", nor those of {others} more object{'s' if others > 1 else ''} of this kind" if others else ""
        yield items[0].finding(
            ("kind",), f"there is no schema for {name} of {version}: its fields are not checked{more}"
        )


_SERVER = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"

RULES = (
    Problem(
        "kubernetes/unknown-field",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="an object has a field that its kind does not have",
        why="helm install drops the field silently, and kubectl apply refuses the object",
        fix="correct its spelling or its place, or update an old CRD, which Helm never does",
        source=_SERVER,
        check=_fields,
    ),
    Problem(
        "kubernetes/value-refused",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="a field has a wrong value, or a required field is missing",
        why="the API server refuses the object, after others of the same release are installed",
        fix="write the expected value",
        source="kubernetes/api/openapi-spec/swagger.json at v1.37.0",
        check=_values,
    ),
    Problem(
        "kubernetes/no-such-kind",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="kind and apiVersion of an object do not name a kind that Kubernetes has",
        why="the install fails: no matches for kind",
        fix="write an apiVersion that the cluster serves; set the cluster's version with --kube-version",
        source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
        check=_absent,
    ),
    Problem(
        "kubernetes/not-judged",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.SILENT,
        title="there is no schema for a kind, so its fields are not checked",
        why="a misspelt field is dropped, and this check cannot find it",
        fix="give its CRD: --crds FILE, or --crds cluster for the CRDs of kubectl's cluster",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/",
        check=_unjudged,
    ),
)
