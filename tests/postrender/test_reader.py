"""The reader agrees with Helm's own reader on everything that it accepts, and refuses the rest with a place."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.helm.engines import Embedded
from postrender.errors import EXIT_CANNOT_RUN, EXIT_USAGE, GrpoError, InputError, Location, RenderError, UnreadableError
from postrender.textfile import MAX_BYTES
from postrender.yaml import builder, reader, scalars
from tests.conftest import read_values

# What Go's library makes of plain scalars; every row is also put to Helm's reader below.
PLAIN = {
    "y": True, "Y": True, "yes": True, "On": True, "TRUE": True, "n": False, "No": False, "off": False,
    "yEs": "yEs", "tRue": "tRue", "": None, "~": None, "Null": None, "nULL": "nULL",
    "0777": 511, "0o777": 511, "0O17": 15, "0x1F": 31, "0X1f": 31, "0b11": 3, "-0b11": -3, "08": 8, "0_8": 8,
    "0b+11": 3, "0b-1_1": -3, "1_000": 1000, "1_": 1, "0x_1F": 31, "+1": 1, "-0": 0, "00": 0,
    "1e3": 1000, "1E3": 1000, "1e+3": 1000, ".5": 0.5, "-.5": -0.5, "+.5": 0.5, "5.": 5, "1.e5": 100000,
    "12e03": 12000, "4e2_0": 400000000000000000000, "3.0e-7": 3e-7,
    ".5_0": 0.5, ".0_": ".0_", ".5__0": ".5__0", ".5e1_0": 5000000000, "1_0.5": 10.5, "0x1p4": "0x1p4",
    "1e400": "1e400", "123e4567": "123e4567", "9007199254740993": 9007199254740992,
    "18446744073709551615": 18446744073709551616, "123456789012345678901234567890": 1.2345678901234568e29,
    "12:30:45": "12:30:45", "1:20": "1:20", "2024-01-02": "2024-01-02", "=": "=", "<<": "<<", "+": "+", ".": ".",
    "250Gi": "250Gi", "2.55.1": "2.55.1", "0x": "0x", "0b2": "0b2", "_1": "_1", "-_1": -1, "1e": "1e",
    "-0b+1": "-0b+1", "0B+1": "0B+1", "0b+": "0b+", "0b+2": "0b+2", "+-1": "+-1", "0x+F": "0x+F",
}  # fmt: skip


def read(text: str | bytes) -> Any:
    """Read one document as this package does."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    return reader.values_from_bytes(data, "f.yaml").plain()


def floats(tree: Any) -> Any:
    """Make every number the 64-bit float that it is in Helm: beyond 2**53 one float has many spellings."""
    return json.loads(json.dumps(tree), parse_int=float)


@pytest.mark.parametrize("text", PLAIN)
def test_plain_scalars_are_parsed_like_helm(text: str, helm: Embedded) -> None:
    assert read(f"a: {text}\n") == {"a": PLAIN[text]}
    assert type(read(f"a: {text}\n")["a"]) is type(PLAIN[text])
    assert floats(read_values(helm, f"a: {text}\n")) == floats({"a": PLAIN[text]})


@pytest.mark.parametrize("form", ["{}", "-{}", "{}.5", "1e{}", "0x{}", "0o{}", "08{}"])
def test_a_number_too_long_for_python_is_parsed_like_helm(form: str, helm: Embedded) -> None:
    text = form.format("7" * 5000)
    assert read(f"a: {text}\n") == {"a": text}
    agree(f"a: {text}\n", helm, exact=True)


@given(text=st.text(alphabet="0123456789+-._eExXoObByYnNfFaA:~", max_size=8))
def test_any_plain_scalar_is_parsed_like_helm(text: str, helm: Embedded) -> None:
    agree(f"a: {text}\n", helm, exact=True)


KEYS = st.sampled_from(["a", "b", "n", "yes", "on", "1", "0x10", "1_000", "'n'", '"1"', "true", "<<", "k-1", "null"])
LEAVES = st.one_of(
    st.sampled_from([*PLAIN]), st.text(max_size=6).map(json.dumps), st.text("ab '", max_size=4).map(lambda t: f"'{t}'")
)


def flow(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Write a map or a list in brackets."""
    entries = st.lists(st.tuples(KEYS, children).map(": ".join), max_size=4)
    return entries.map(lambda es: f"{{{', '.join(es)}}}") | st.lists(children, max_size=4).map(
        lambda items: f"[{', '.join(items)}]"
    )


@given(lines=st.lists(st.tuples(KEYS, st.recursive(LEAVES, flow, max_leaves=8)).map(": ".join), max_size=6))
def test_any_tree_is_parsed_like_helm(lines: list[str], helm: Embedded) -> None:
    agree("\n".join(lines), helm)


@given(text=st.text(alphabet="ab1y:-# \n[]{},'\"|>&*!?%.~<\t\\\ufeff\x85", max_size=24))
def test_any_text_is_parsed_like_helm_or_rejected(text: str, helm: Embedded) -> None:
    agree(text, helm)


# What this package refuses although Helm takes it, each for a reason that its message gives.
STRICTER = (
    "is given twice", "is not allowed here", "a key must be text", "a second YAML document", "this is not YAML",
    "top, found a", "is not understood by Helm",
)  # fmt: skip


def agree(text: str, helm: Embedded, *, exact: bool = False) -> None:
    """Check that what is accepted here is read by Helm to the same values."""
    try:
        ours = read(text)
    except InputError as error:
        assert error.exit_code == EXIT_USAGE
        assert "\n" not in error.message
        if exact:
            with pytest.raises(RenderError):
                read_values(helm, text)
        assert exact or any(
            reason in error.message
            for reason in (*STRICTER, "finite", "alias", "<<", "byte order mark", "question mark")
        )
        return
    assert floats(ours) == floats(read_values(helm, text))


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null\n", "a: 1\n---\n"])
def test_a_file_without_values_is_accepted_like_in_helm(text: str, helm: Embedded) -> None:
    assert read(text) == read_values(helm, text)


REFUSED = {
    "binary": (b"a: 1\nb: \0x", "f.yaml:2:4: this is not a text file: it contains a NUL byte"),
    "not UTF-8": (b"a: \xff", "f.yaml:1:4: this is not UTF-8: byte 0xff"),
    "UTF-16": ("a: 1".encode("utf-16"), "f.yaml:1:4: this is not a text file"),
    "control character": (b"a: 1\nb: \x07", "f.yaml:2:4: this is not YAML: control characters are not allowed"),
    "tab": (b"a:\n\tb: 1", "f.yaml:2:1: this is not YAML: a tab indents this line\n  fix: indent with spaces"),
    "tab after spaces": (
        b"\xef\xbb\xbfa:\n  \tb: 1",
        "f.yaml:2:3: this is not YAML: a tab indents this line\n  fix: indent",
    ),
    "tab below a value": (
        b"a:\n  b: 1\n\tc: 2\n",
        "f.yaml:3:1: this is not YAML: a tab indents this line\n  fix: indent",
    ),
    "tab in a block": (b"a: |\n\tb\n", "f.yaml:2:1: this is not YAML: a tab indents this line\n  fix: indent"),
    "no token": (b"a: @b\n", "f.yaml:1:4: this is not YAML: found character that cannot start any token"),
    "two colons": (b"a: b: c", "f.yaml:1:5: this is not YAML: mapping values are not allowed in this context"),
    "shell script": (b"#!/bin/sh\necho a: b: c\n", "f.yaml:1:1: this is not YAML, but a program"),
    "open bracket": (b"a: [1,\n", "f.yaml:1:6: this is not YAML: did not find expected node content"),
    "open bracket with a value": (b"a:\n  b: [1\n\n", "f.yaml:2:6: this is not YAML: did not find expected ',' or ']'"),
    "open quote": (b"a: 'b\nc: 1\n", "f.yaml:1:4: this is not YAML: found unexpected end of stream"),
    "key twice": (b"a: 1\nb: 2\na: 3", "f.yaml:3:1: the key 'a' is given twice: the first is at f.yaml:1:1"),
    "key twice for Helm": (b"yes: 1\non: 2", "f.yaml:2:1: the key 'true' is given twice: the first is at f.yaml:1:1"),
    "list": (b"- a\n", "f.yaml:1:1: expected `key: value` lines at the top, found a list"),
    "one word": (b"text\n", "f.yaml:1:1: expected `key: value` lines at the top, found a single value"),
    "two documents": (b"a: 1\n---\nb: 2\n", "f.yaml:3:1: a second YAML document starts here: Helm 3 would ignore it"),
    "infinity": (b"a: -.inf", "f.yaml:1:4: -.inf is not a finite number"),
    "null key": (b"a: {~: 1}", "f.yaml:1:5: a key must be text, this one is null"),
    "float key": (b"1.5: 1", "f.yaml:1:1: a key must be text, this one is a number that is not a plain integer"),
    "list as key": (b"? [1]\n: 2", "f.yaml:1:3: a key must be text, this one is a list"),
    "map as key": (b"? {a: 1}\n: 2", "f.yaml:1:3: a key must be text, this one is a map"),
    "tag": (b"a: !!binary aGk=", "f.yaml:1:4: a tag is not allowed here"),
    "tag on a list": (b"a: !x [1]", "f.yaml:1:4: a tag is not allowed here"),
    "unknown alias": (b"a: *x", "f.yaml:1:4: this alias is not defined above this line"),
    "alias of itself": (b"a: &x {b: *x}", "f.yaml:1:11: this alias contains itself"),
    "merge of a number": (b"b: {<<: 3}", "f.yaml:1:5: << merges maps only"),
    "mark inside": ("a: 1\n\ufeffb: 1".encode(), "f.yaml:2:1: a byte order mark is inside the text"),
    "question": (b"a: {q: why?}", "f.yaml:1:8: Helm does not read a question mark between brackets"),
    "YAML 1.2": (b"%YAML 1.2\n---\na: 1", "f.yaml:1:1: Helm does not understand a %YAML directive"),
    "YAML 1.1": (b"%YAML 1.1\n---\na: 1", "f.yaml:1:1: Helm does not understand a %YAML directive"),
    "empty document first": (b"# c\n---\n# c\n---\na: 1", "f.yaml:5:1: a second YAML document starts here"),
    "text behind the mark": (b"--- {a: 1}", "f.yaml:1:1: Helm 4 cuts the file at a line that starts with ---"),
    "mark in a text": (b'a: "x\n---y"', "f.yaml:2:1: Helm 4 cuts the file at a line that starts with ---"),
    "escaped slash": (rb'a: "b\\\/c"', "f.yaml:1:4: Helm does not know the escape \\/ in double quotes"),
    "deep flow": (b"a: " + b"[" * 500, "f.yaml:1:104: nested deeper than 100 levels"),
    "deep block": (b"".join(b" " * i + b"a:\n" for i in range(300)), "f.yaml:101:101: nested deeper than 100 levels"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_values_file_is_rejected_with_place_and_fix(case: str) -> None:
    data, message = REFUSED[case]
    with pytest.raises(InputError) as caught:
        read(data)
    assert str(caught.value).startswith(message)
    assert caught.value.fix


def test_nesting_beyond_the_parsers_own_limit_gives_the_same_error() -> None:
    """PyYAML 6.0.4 stops at 1000 levels, with an error of its own."""
    with pytest.raises(InputError, match="nested deeper than 100 levels"):
        read(b"a: " + b"[" * 100_000)


def test_an_alias_bomb_is_rejected_at_once() -> None:
    names = [f"k{i}" for i in range(20)]
    bomb = f"{names[0]}: &{names[0]} [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise(names)
    )
    # It stands for 9 ** 20 values: a reader that made them first would not come back.
    with pytest.raises(InputError, match="aliases repeat more than 2 MB of values"):
        read(bomb)


def aliases(value: str, count: int) -> bytes:
    return f"a: &a {value}\nb:\n".encode() + b"- *a\n" * count


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (f"[{', '.join(['1'] * 180)}]", 5_000),
        (f"[{', '.join(['1'] * 50)}]", 5_000),
        ("q" * 20_000, 5_000),
        (f"{{{'k' * 1_000}: 1}}", 5_000),
        ("x", 130_000),
    ],
)
def test_values_repeated_by_aliases_are_limited(value: str, count: int) -> None:
    """Helm took 2.7 GB for 45 kB."""
    with pytest.raises(InputError) as error:
        read(aliases(value, count))
    assert "f.yaml:" in str(error.value)
    assert "aliases repeat more than 2 MB of values up to this one\n  fix: write the values out" in str(error.value)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 200))
def test_aliases_never_repeat_more_than_the_limit(width: int, letters: int, count: int) -> None:
    """What Helm gets has at most the letters of the file and those of the limit."""
    data = aliases(f"[{', '.join(['q' * letters] * width)}]", count)
    with mock.patch.object(builder, "MAX_REPEATED", 20_000):
        size = 16 + width * (16 + letters)
        if size * count > 20_000:
            with pytest.raises(InputError):
                read(data)
        else:
            tree = read(data)
            assert len(json.dumps(tree)) <= len(data) + 2 * 20_000


def test_aliases_in_an_ordinary_file_are_read() -> None:
    block = "[{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}, {name: A, value: b}]"
    assert len(read(aliases(block, 3_000))["b"]) == 3_000


def test_a_huge_file_is_rejected_without_being_fully_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="larger than 8 MiB"):
            reader.load_values(huge)
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_BYTES
    finally:
        tracemalloc.stop()
    assert MAX_BYTES == 8 * 1024 * 1024


def test_an_endless_file_is_rejected() -> None:
    with pytest.raises(InputError, match="larger than 8 MiB"):
        reader.load_values("/dev/zero")


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    cases = {"none.yaml": "no such file", ".": "this is a directory", "a\0b": "cannot be read"}
    for name, reason in cases.items():
        with pytest.raises(UnreadableError, match=reason) as caught:
            reader.load_values(os.path.join(tmp_path, name))
        assert caught.value.exit_code == EXIT_CANNOT_RUN


def test_a_file_without_read_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Root may read every file, so the refusal is made up.
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UnreadableError, match="no permission to read it") as caught:
        reader.load_values(tmp_path / "closed.yaml")
    assert caught.value.fix == f"chmod u+r {tmp_path / 'closed.yaml'}"


def test_a_url_error_says_that_only_local_files_are_read() -> None:
    with pytest.raises(UnreadableError) as caught:
        reader.load_values("https://example.com/values.yaml")
    assert "local files only" in caught.value.fix


@given(data=st.binary(max_size=200))
def test_any_bytes_give_values_or_one_clear_error(data: bytes) -> None:
    try:
        assert isinstance(read(data), dict)
    except GrpoError as error:
        assert error.exit_code == EXIT_USAGE


def test_every_key_and_value_has_its_place() -> None:
    root = reader.values_from_bytes("\ufeff# ü\nä: {b: [1, 'two']}\nn: 3\n".encode(), "f.yaml")
    assert isinstance(root.value, dict)
    first, odd = root.value["ä"], root.value["false"]
    assert [str(first.key_at), str(first.at)] == ["f.yaml:2:1", "f.yaml:2:4"]
    (inner,) = first.children()
    assert [str(node.at) for node in inner.children()] == ["f.yaml:2:9", "f.yaml:2:12"]
    assert (odd.spelled, first.spelled) == ("n", "")


@pytest.mark.parametrize("key", ["n", "on", "True", "false"])
def test_only_unquoted_boolean_like_keys_keep_their_spelling(key: str) -> None:
    def spelled(text: str) -> list[str]:
        return [node.spelled for node in reader.values_from_bytes(text.encode(), "f").children()]

    assert spelled(f"{key}: 1") == [key]
    assert spelled(f'"{key}": 1') == [""]


def test_a_merge_key_overrides_earlier_keys_and_yields_to_later_ones(helm: Embedded) -> None:
    text = "x: &x {c: 1, d: 1}\na: {c: 2, <<: *x}\nb: {<<: *x, c: 2}\nd: {<<: [{e: 1}, {e: 2, f: 3}]}\n"
    expected = {"x": {"c": 1, "d": 1}, "a": {"c": 1, "d": 1}, "b": {"c": 2, "d": 1}, "d": {"e": 1, "f": 3}}
    assert read(text) == expected == read_values(helm, text)


def test_manifest_objects_are_read_document_by_document() -> None:
    objects = reader.load_objects("# none\n---\nkind: A\nx: on\n---\n---\nkind: B\n", "<x>")
    assert objects == [{"kind": "A", "x": True}, {"kind": "B"}]
    with pytest.raises(InputError, match="expected a Kubernetes object"):
        reader.load_objects("- a\n", "<x>")


def test_out_of_range_numbers_are_parsed_like_helm() -> None:
    assert scalars.resolve("-9223372036854775809") == -9223372036854775808
    assert scalars.resolve("0x" + "f" * 17) == "0x" + "f" * 17


def test_an_unclosed_bracket_is_reported_at_its_own_line() -> None:
    """The parser stops where the next key begins, in the middle of a file."""
    with pytest.raises(InputError, match="while parsing a flow mapping that begins in line 2") as error:
        reader.parse(b"stack:\n  labels: {a: b\njob:\n  name: x\n", "f")
    assert error.value.at == Location("f", 3, 4)


@pytest.mark.parametrize(
    ("text", "fix"), [("a: [fd00::]\n", "quotes"), ("a: [b\n", "check quotes, brackets and indentation")]
)
def test_the_fix_for_a_colon_before_a_bracket_is_to_add_quotes(text: str, fix: str) -> None:
    """Helm reads the first one, other readers do not."""
    with pytest.raises(InputError) as error:
        reader.parse(text.encode(), "f")
    assert (error.value.fix or "").endswith(fix)
