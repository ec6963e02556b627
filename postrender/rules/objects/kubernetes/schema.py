"""Every object fits the schema of its kind, as Kubernetes and the operators define it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, INFO, Finding, Place
from postrender.manifests.schemas import kind_of
from postrender.rules.rule import OBJECTS, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.rules.objects.manifests import Item, Manifests

# Files for kustomize, which no cluster gets.
_NO_OBJECTS: Final = ("kustomize.config.k8s.io/", "config.kubernetes.io/")


def _fields(manifests: Manifests) -> Iterator[Finding]:
    for item, violation in manifests.violations():
        if violation.unknown:
            what = f"{_dotted(violation.path)} is no field of {_kind(item)}"
            yield item.finding(violation.path, what, of_key=True)


def _values(manifests: Manifests) -> Iterator[Finding]:
    yield from _lists(manifests)
    for item, violation in manifests.violations():
        if not violation.unknown:
            where = f"{_dotted(violation.path)}: " if violation.path else ""
            yield item.finding(violation.path, f"{where}{violation.message}")


def _lists(manifests: Manifests) -> Iterator[Finding]:
    # Of a List in order only the items are there.
    for item in manifests.of_kinds(("List", "None")):
        if not item.object:
            yield Finding("this item of a List is no object", place=Place(item.document, item.path))
        elif item.object.get("kind") == "List" and item.object.get("apiVersion") == "v1":
            yield Finding("this List has no list of items", place=Place(item.document, (*item.path, "items")))


def _dotted(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _kind(item: Item) -> str:
    return str(item.object.get("kind"))


def _absent(manifests: Manifests) -> Iterator[Finding]:
    kinds = manifests.kinds
    for item in manifests.unknown() if kinds else ():
        version, kind = item.object.get("apiVersion"), item.object.get("kind")
        if not item.object or (kind == "List" and version == "v1"):
            # _lists says so.
            continue
        if not isinstance(kind, str) or not kind:
            yield item.finding(("kind",), "this object has no kind")
        elif not isinstance(version, str) or not version:
            yield item.finding(
                ("apiVersion",), f"the apiVersion of this {kind} is {'no text' if version else 'missing'}"
            )
        elif kinds and kinds.is_of_kubernetes(version):
            others = ", ".join(kinds.elsewhere(kind))
            hint = f"it has it in {others}" if others else "nor in any other group"
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
        more = f", nor are {len(items) - 1} more of its kind" if len(items) > 1 else ""
        yield items[0].finding(
            ("kind",), f"there is no schema for {name} of {version}: its fields are not judged{more}"
        )


_SERVER = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"

RULES = (
    Rule(
        "kubernetes/unknown-field",
        target=OBJECTS,
        severity=ERROR,
        title="an object has a field that its kind does not have",
        why="an install by Helm loses it without a word, and kubectl apply refuses the object",
        fix="correct its spelling or its place, or renew a definition that is older than the object: Helm never does",
        source=_SERVER,
        fact="kuberay/pitfall-11 schemas/field-that-no-kind-has",
        check=_fields,
    ),
    Rule(
        "kubernetes/value-refused",
        target=OBJECTS,
        severity=ERROR,
        title="a value is none that the field can have, or a needed field is missing",
        why="the API server refuses the object, after others of the same release are installed",
        fix="write what is expected there",
        source="kubernetes/api/openapi-spec/swagger.json at v1.37.0",
        fact="schemas/value-that-no-field-takes",
        check=_values,
    ),
    Rule(
        "kubernetes/no-such-kind",
        target=OBJECTS,
        severity=ERROR,
        title="there is no such kind in this group and version of Kubernetes",
        why="the install fails: no matches for kind",
        fix="write an apiVersion that the cluster's version serves; --kube-version says which version that is",
        source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
        fact="schemas/kind-of-another-version",
        check=_absent,
    ),
    Rule(
        "kubernetes/not-judged",
        target=OBJECTS,
        severity=INFO,
        title="there is no schema for a kind",
        why="a misspelt field of it is lost without a word, and this check cannot tell",
        fix="give its definition: --crds FILE, or --crds cluster for those of the cluster that kubectl reaches",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/",
        fact="schemas/kind-without-a-schema",
        check=_unjudged,
    ),
)
