"""What the rules over charts say of Helm is so: the real Helm 3, the real Helm 4 and the embedded one are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.helm.engines import Binary, Embedded, Engine
from grpo.manifests import chart_files
from grpo.problems.charts import chart_drafts as drafts
from grpo.problems.charts import chart_pattern_not_re2 as pattern_not_re2
from grpo.problems.charts import chart_values_file as values_file
from postrender.errors import RenderError
from tests.conftest import require_tool, thin

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    8: "https://json-schema.org/draft/2019-09/schema",
    9: "https://json-schema.org/draft/2020-12/schema",
}
READ = [
    *(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        r"\d{1,3}",
        r"a{1000}",
        r"(?i)a",
        r"(?i:a)",
        r"(?i-s:a)",
        r"(?P<n>a)",
        r"(?<n>a)",
    ),
    *(r"\p{L}\P{Greek}\pL", r"\x{41}\x41", r"\/\-\_\<", r"[[:alpha:]_]", r"[^[:^digit:]a]", r"[]a]", r"[^]a]", r"[a-]"),
    *(
        r"\Qa**\E",
        r"a??",
        r"a{2,}?",
        r"a{",
        r"{a}",
        r"a{,3}",
        r"\01\12",
        r"\0",
        r"\A\z\b\B",
        r"[\d\w-]",
        r"[(?=]",
        r"[*+]+",
    ),
    *(r"(a|b)*", r"^*", r"(|a)*", r"\v\f\a", r"[\[\]]", r"(?:a+)+"),
]
REFUSED = {
    r"^(?=.*\d).+$": "a lookahead",
    r"^(?!www)": "a lookahead",
    r"(?<=a)b": "a lookbehind",
    r"(?<!a)b": "a lookbehind",
    r"(?>a)": "an atomic group",
    r"(?#why)a": "a comment",
    r"(?x)a": "the group (?x)",
    r"(?P=n)": "the group (?P=n",
    r"(?'n'a)": "the group (?'",
    r"(a)\1": r"the reference \1 to a group",
    r"\8": r"the reference \8 to a group",
    r"(?<n>a)\k<n>": r"the reference \k to a group",
    r"a*+": "+ after another repetition",
    r"a++": "+ after another repetition",
    r"a{2}{3}": "{3} after another repetition",
    r"a???": "? after another repetition",
    r"a{1001}": "a repetition of more than 1000",
    r"\u00e9": r"the escape \u",
    r"\cA": r"the escape \c",
    r"a\Z": r"the escape \Z",
    r"\h+": r"the escape \h",
    r"\R": r"the escape \R",
    r"\x4": r"the escape \x",
    r"[\b]": r"the escape \b",
    r"[\z]": r"the escape \z",
}
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {values: {{ toJson .Values | quote }}}\n"


@pytest.fixture(params=["helm3", "helm4", "embedded"])
def engine(request: pytest.FixtureRequest, helm: Embedded) -> Iterator[Engine]:
    if request.param == "embedded":
        yield helm
    else:
        with Binary(require_tool(request.param)) as binary:
            yield binary


def write(folder: Path, schema: dict[str, Any] | None = None, values: str = "a: x\n", meta: str = "") -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {folder.name}\nversion: 1.0.0\n{meta}")
    (folder / "values.yaml").write_text(values)
    (folder / "templates/map.yaml").write_text(CONFIG)
    if schema is not None:
        (folder / "values.schema.json").write_text(json.dumps(schema))
    return folder


def values_of(engine: Engine, chart: Path) -> Any:
    """Return the values that a template of the chart gets."""
    return json.loads(engine.render(str(chart), notes=False).documents[-1]["data"]["values"])


def is_taken(engine: Engine, chart: Path) -> bool:
    try:
        engine.render(str(chart), notes=False)
    except RenderError as error:
        assert error.is_of_schema, error.message
        return False
    return True


@pytest.mark.parametrize("pattern", READ)
def test_a_pattern_that_helm_can_parse_is_not_reported(pattern: str, tmp_path: Path, helm: Embedded) -> None:
    assert is_taken(helm, write(tmp_path / "c", {"properties": {"b": {"pattern": pattern}}}))
    assert pattern_not_re2.refused(pattern) == ""


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.items(), ids=list(REFUSED))
def test_a_pattern_that_helm_cannot_parse_is_reported(
    pattern: str, reason: str, tmp_path: Path, helm: Embedded
) -> None:
    assert not is_taken(helm, write(tmp_path / "c", {"properties": {"b": {"pattern": pattern}}}))
    assert reason in pattern_not_re2.refused(pattern)


# Schemas that refuse {"a": "x", "b": [1]} where the keyword is one of the draft.
ASKED: dict[str, dict[str, Any]] = {
    "const": {"properties": {"a": {"const": "y"}}},
    "contains": {"properties": {"b": {"contains": {"type": "string"}}}},
    "propertyNames": {"propertyNames": {"enum": ["a"]}},
    "if": {"if": {"required": ["a"]}, "then": {"required": ["c"]}},
    "unevaluatedProperties": {"unevaluatedProperties": False},
    "unevaluatedItems": {"properties": {"b": {"unevaluatedItems": False}}},
    "dependentRequired": {"dependentRequired": {"a": ["c"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"required": ["c"]}}},
    "minContains": {"properties": {"b": {"contains": {"type": "integer"}, "minContains": 2}}},
    "maxContains": {"properties": {"b": {"contains": {"type": "integer"}, "maxContains": 0, "minContains": 0}}},
    "prefixItems": {"properties": {"b": {"prefixItems": [{"type": "string"}]}}},
    "additionalItems": {"properties": {"b": {"items": [], "additionalItems": {"type": "string"}}}},
}


def test_every_keyword_of_every_draft_is_tested() -> None:
    assert {*drafts._DRAFTS} - {*ASKED} == {"then", "else"}


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("keyword", ASKED)
def test_a_keyword_has_an_effect_only_in_its_drafts(keyword: str, draft: int, tmp_path: Path, helm: Embedded) -> None:
    schema = {"$schema": DRAFTS[draft], **ASKED[keyword]}
    if keyword == "additionalItems" and draft == 9:
        # There items is no list, which the draft itself refuses.
        schema["properties"] = {"b": {"additionalItems": {"type": "string"}}}
    chart = write(tmp_path / "c", schema, "a: x\nb: [1]\n")
    first, last = drafts._DRAFTS[keyword]
    assert is_taken(helm, chart) == (not first <= draft <= last)
    said = [*drafts._keywords(chart_files.read(str(chart)))]
    assert any(keyword in each.what for each in said) == (not first <= draft <= last)


FORMATS = {
    "date": "x",
    "date-time": "x",
    "time": "x",
    "email": "x",
    "hostname": "-",
    "ipv4": "x",
    "ipv6": "x",
    "uri": "x",
    "uri-reference": "\\",
    "uri-template": "{",
    "regex": "(",
    "json-pointer": "x",
    "relative-json-pointer": "x",
    "uuid": "x",
    "duration": "x",
}


@pytest.mark.parametrize("name", sorted(drafts._FORMATS))
def test_formats_are_checked_only_up_to_draft_7(name: str, tmp_path: Path, helm: Embedded) -> None:
    schema = {"properties": {"a": {"format": name}}}
    values = f"a: {json.dumps(FORMATS[name])}\n"
    assert not is_taken(helm, write(tmp_path / "seven", {"$schema": DRAFTS[7], **schema}, values))
    for draft in (8, 9):
        assert is_taken(helm, write(tmp_path / str(draft), {"$schema": DRAFTS[draft], **schema}, values))
    assert is_taken(helm, write(tmp_path / "none", schema, values))


REFERENCE = {"definitions": {"text": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/text"}}}


def beside(draft: int) -> dict[str, Any]:
    schema = json.loads(json.dumps({"$schema": DRAFTS[draft], **REFERENCE}))
    schema["properties"]["a"]["maxLength"] = 0
    return dict(schema)


@pytest.mark.parametrize(
    ("schema", "taken"),
    thin(
        [
            (beside(4), True),
            (beside(7), True),
            (beside(8), False),
            (beside(9), False),
            ({"properties": {"a": {"$ref": "urn:some:thing"}}}, True),
            ({"properties": {"a": {"$ref": "other.json"}}}, False),
            ({"required": ["b"], "properties": {"b": {"default": 1}}}, False),
            ({"$schema": "http://localhost:1/draft"}, False),
        ],
        3,
    ),
    ids=["draft 4", "draft 7", "2019-09", "2020-12", "urn", "relative", "default", "unknown draft"],
)
def test_helm_accepts_and_rejects_schemas_as_the_evidence_claims(
    schema: dict[str, Any], taken: bool, tmp_path: Path, engine: Engine
) -> None:
    assert is_taken(engine, write(tmp_path / "c", schema)) == taken


def strict(*names: str) -> dict[str, Any]:
    return {"additionalProperties": False, "properties": {name: {} for name in names}}


@pytest.mark.parametrize(
    ("parent", "child", "condition", "taken"),
    thin(
        [
            (strict("a"), strict("global"), "", False),
            (strict("a", "child"), strict("global"), "", True),
            (strict("a", "child"), strict(), "", False),
            (strict("a", "child"), strict("global"), "child.enabled", False),
            (strict("a", "child"), strict("global", "enabled"), "child.enabled", True),
        ],
        3,
    ),
    ids=["no name", "name and global", "no global", "no switch", "switch"],
)
def test_helm_adds_values_for_a_subchart(
    parent: dict[str, Any], child: dict[str, Any], condition: str, taken: bool, tmp_path: Path, engine: Engine
) -> None:
    meta = f"dependencies: [{{name: child, version: 1.0.0, condition: '{condition}'}}]\n" if condition else ""
    values = "a: x\nchild: {enabled: true}\n" if condition else "a: x\n"
    write(tmp_path / "c", parent, values, meta)
    write(tmp_path / "c/charts/child", child, "")
    assert is_taken(engine, tmp_path / "c") == taken


@pytest.mark.parametrize(("name", "kept"), [("helm3", False), ("helm4", True)])
def test_helm_3_and_helm_4_differ_in_a_null_for_a_subchart(name: str, kept: bool, tmp_path: Path) -> None:
    write(tmp_path / "c", None, "child: {size: null}\n")
    (tmp_path / "c/templates/map.yaml").unlink()
    write(tmp_path / "c/charts/child", None, "size: 1\n")
    with Binary(require_tool(name)) as helm:
        assert ("size" in values_of(helm, tmp_path / "c")) == kept


@pytest.mark.parametrize(
    ("written", "printed", "of_chart"),
    thin(
        [
            ("1.20", "1.2", "1.2"),
            ("1.0", "1", "1"),
            ("20240101", "2.0240101e+07", "20240101"),
            ("0123", "83", "83"),
            ("1e3", "1000", "1000"),
            ("123456", "123456", "123456"),
            ("1234567.5", "1.2345675e+06", "1.2345675e+06"),
        ],
        3,
    ),
)
def test_helm_prints_each_number_as_the_evidence_claims(
    written: str, printed: str, of_chart: str, tmp_path: Path, engine: Engine
) -> None:
    chart = write(tmp_path / "c", None, f"tag: {written}\n", f"appVersion: {written}\n")
    (chart / "templates/map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        "data: {tag: {{ .Values.tag | quote }}, app: {{ .Chart.AppVersion | quote }}}\n"
    )
    (item,) = engine.render(str(chart), notes=False).documents
    assert item["data"] == {"tag": printed, "app": of_chart}
    said = [each.what for each in values_file._versions(chart_files.read(str(chart)))]
    assert said == [
        f"{name} is the number {number} to Helm, not the text {written}"
        for name, number in (("tag", printed), ("appVersion", of_chart))
        if number != written
    ]
