"""Arguments of --set and its relatives set what Helm sets: Helm itself is the oracle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import helm_python
import pytest
from hypothesis import given
from hypothesis import strategies as some

from grpo.values import set_arguments
from grpo.values.set_arguments import FILE, JSON, SET, STRING, Argument
from postrender.errors import InputError
from postrender.values import merge
from postrender.values.merge import Values
from postrender.yaml import reader
from tests.conftest import require_tool

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shown\nversion: 1.0.0\n",
    "templates/a.yaml": "shown: {{ .Values | toJson | quote }}\n",
}
FILES = "a: {b: 1, c: [x, {y: 2}]}\nlist: [p, q]\nnothing: null\nscalar: 1\n"
PARSERS = {
    SET: helm_python.parse_set_string,
    STRING: helm_python.parse_set_string_values,
    JSON: helm_python.parse_set_json,
}
KEYS = ("a", "b", "a.b", "a[0]", "a[1].b", "b[0][1]", "a\\.b", "a.b.c")
PIECES = ("a", ".", "=", "[0]", "{", "}", "\\,", "0", "12", "-1", "007", "true", "null", " ", "1.5", '"x"')
VALUES = some.lists(some.sampled_from(PIECES), max_size=4).map("".join) | some.sampled_from(
    ("{}", "{a,1}", '"x"', "[1]")
)
ASSIGNMENTS = some.lists(some.tuples(some.sampled_from(KEYS), VALUES).map("=".join), min_size=1, max_size=3).map(
    ",".join
)


def files(text: str = FILES) -> Values:
    return merge.merge([reader.values_from_bytes(text.encode(), "values.yaml")], ["values.yaml"])


def applied(*arguments: Argument, text: str = FILES) -> dict[str, Any]:
    """Return the plain values after the arguments."""
    return set_arguments.apply(files(text), arguments).as_helm_merges()


@given(some.sampled_from(sorted(PARSERS)), ASSIGNMENTS)
def test_an_argument_is_parsed_like_helm_or_rejected(flag: str, text: str) -> None:
    try:
        ours = applied((flag, text), text="{}")
    except InputError:
        # Helm ignores what follows some values; a message is better.
        return
    assert ours == PARSERS[flag](text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a={}",
            "a={x,1}",
            "a=1.5,b=0,c=01,d=null,e=TRUE",
            "f[1].g=2",
            "g\\.h=3",
            "a=x\\,y",
            "a[0][1]=x",
            "a=-3",
            "a=+3",
        ),
        *("a=", "a=9223372036854775807", "a=9223372036854775808", "a={x,y},b=2", "a= 1", "a=b=c", "a[0].b=1,a[0].c=2"),
    ],
)
def test_the_argument_syntax_is_helms(text: str) -> None:
    for flag in (SET, STRING):
        assert applied((flag, text), text="{}") == PARSERS[flag](text)


NINES = "9" * 5000


@pytest.mark.parametrize("text", [f"a={NINES}", f"a=-{NINES}", f"a=-{NINES.replace('9', '0')}7", "a=+007"])
def test_a_number_too_long_for_python_is_parsed_like_helm(text: str) -> None:
    assert applied((SET, text), text="{}") == PARSERS[SET](text)


@pytest.mark.parametrize("number", [NINES, "9" * 400, "1e400", f"-{NINES}"])
def test_a_json_number_that_helm_cannot_represent_is_rejected_with_its_place(number: str) -> None:
    with pytest.raises(InputError, match="too large") as refused:
        applied((JSON, f"a={number}"))
    assert str(refused.value.at) == "<--set-json>:1:1"
    assert "sys." not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a,b=1",
        "a.b,c=1",
        "=1",
        "a..b=1",
        "a[x]=1",
        "a[-1]=1",
        "a[99999]=1",
        f"a[{NINES}]=1",
        "a={x",
        "a[0]",
        "a[0]b=1",
    ],
)
def test_an_argument_that_sets_nothing_is_rejected_with_its_place(text: str) -> None:
    with pytest.raises(InputError) as refused:
        applied((SET, "ok=1"), (SET, text))
    assert str(refused.value.at).startswith("<--set>:2:")


@pytest.mark.parametrize("text", ["scalar.x=1", "scalar[0]=1", "list.x=1", "nothing.x=1", "nothing[0]=1"])
def test_setting_a_key_below_a_scalar_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="cannot set a part"):
        applied((SET, text))


def test_a_finding_can_point_at_the_key_in_its_argument() -> None:
    values = set_arguments.apply(files(), [(STRING, "x=1"), (SET, "a.b=2,scalar=3"), (SET, "new.key=4")])
    places = {path: str(values.at(tuple(path.split(".")))) for path in ("a.b", "scalar", "new.key", "x", "list")}
    assert places == {
        "a.b": "<--set>:1:1",
        "scalar": "<--set>:1:7",
        "new.key": "<--set>:2:1",
        "x": "<--set-string>:1:1",
        "list": "values.yaml:2:1",
    }
    assert values.files == ["values.yaml", "<--set>", "<--set-string>"]


def test_flags_apply_in_helms_order_and_file_flags_are_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")
    given = [
        (FILE, f"f={tmp_path / 'text'}"),
        (STRING, "a.b=7"),
        (SET, "a.b=6,s=6"),
        (JSON, '{"s": 5, "a": {"b": 5, "d": [1]}}'),
    ]
    after = applied(*given)
    assert (after["a"]["b"], after["s"], after["a"]["d"], after["f"]) == ("7", 6, [1], "from a file\n")
    assert after["list"] == ["p", "q"]


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_a_real_helm_produces_the_same_values(helm: str, tmp_path: Path) -> None:
    program, chart = require_tool(helm), tmp_path / "chart"
    for name, text in CHART.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    (tmp_path / "values.yaml").write_text(FILES)
    cases: list[list[Argument]] = [
        [(SET, "list[1]=x,a.c[1].y=3,a.c[3]=z"), (STRING, "a.b=1")],
        [(STRING, "a.b=1"), (SET, "a.b=2"), (JSON, 'a.b={"k": [1, null]}')],
        [(SET, "list[0].k=1"), (SET, "list[0].l=2")],
        [(SET, "a=null,n.m=1.5,o={},p={a,b}")],
    ]
    # Helm 3 takes no map without a key.
    cases += [[(JSON, '{"a": {"b": [1]}}'), (SET, "list[0]=1")]] if helm == "helm4" else []
    for arguments in cases:
        words = [word for argument in arguments for word in argument]
        done = subprocess.run(
            [program, "template", chart, "-f", tmp_path / "values.yaml", *words],
            check=True,
            capture_output=True,
            text=True,
        )
        theirs = json.loads(reader.load_objects(done.stdout, "<helm>")[0]["shown"])
        # Helm drops what is null from the values of a chart.
        assert merge.without_nulls(applied(*arguments)) == merge.without_nulls(theirs), words
