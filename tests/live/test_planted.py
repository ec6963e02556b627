"""Masking hides planted secrets, leaves ordinary lines as they are, and takes a time that grows with the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrender import masking
from tests.conftest import examples
from tests.live.planted import ORDINARY, PLANTED, Line
from tests.processor import limited

# What programs and `kubectl logs --prefix` write before a line.
PREFIXES = (
    "",
    "[pod/s-ray-head-x7x2q/ray-head] ",
    "2026-03-02T11:04:55.123456789Z ",
    "(run.py pid=99, ip=10.0.0.1) ",
    "+ ",
)


def whole(scene: list[Line], prefix: str = "") -> list[str]:
    """Return the lines of a text that is masked at once."""
    return masking.text("\n".join(prefix + line.text for line in scene)).split("\n")


def streamed(scene: list[Line], prefix: str = "") -> list[str]:
    """Return the lines of a text that is masked line by line."""
    stream = masking.Stream()
    return [stream.masked(f"{prefix}{line.text}\n")[:-1] for line in scene]


def test_enough_secrets_are_planted() -> None:
    """Otherwise the tests below prove little."""
    assert sum(bool(line.secrets) for scene in PLANTED for line in scene) >= 150
    assert sum(not line.secrets for scene in ORDINARY for line in scene) >= 120


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("masked", [whole, streamed])
def test_planted_secrets_are_hidden(masked: type[whole], prefix: str) -> None:  # type: ignore[valid-type]
    left = []
    for scene in PLANTED:
        shown = "\n".join(masked(scene, prefix))
        left += [line.text for line in scene if line.leaks_in(shown)]
    assert left == []


@pytest.mark.parametrize("prefix", PREFIXES)
def test_ordinary_lines_are_not_changed(prefix: str) -> None:
    changed = []
    for scene in (*PLANTED, *ORDINARY):
        pairs = zip(scene, streamed(scene, prefix), strict=True)
        changed += [line.text for line, shown in pairs if not line.secrets and shown != prefix + line.text]
    assert changed == []
    assert [line for scene in ORDINARY for line in whole(scene)] == [line.text for scene in ORDINARY for line in scene]


@settings(max_examples=examples(100))
@given(scene=st.sampled_from(PLANTED), data=st.data())
def test_secrets_are_hidden_wherever_the_text_is_split(scene: list[Line], data: st.DataObject) -> None:
    stream, shown, begin = masking.Stream(), "", 0
    for end in sorted(data.draw(st.sets(st.integers(1, len(scene))) | st.just({len(scene)})) | {len(scene)}):
        shown += stream.masked("".join(f"{line.text}\n" for line in scene[begin:end]))
        begin = end
    assert [line.text for line in scene if line.leaks_in(shown)] == []


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from((*PLANTED, *ORDINARY)), max_size=4))
def test_masking_masked_text_changes_nothing(scenes: list[list[Line]]) -> None:
    masked = masking.text("\n".join(line.text for scene in scenes for line in scene))
    assert masking.text(masked) == masked


def test_a_value_is_masked_despite_colour_codes() -> None:
    line = "\x1b[36mtoken\x1b[0m=\x1b[35mLarkspur#2291\x1b[0m \x1b[36mstep\x1b[0m=\x1b[35m7\x1b[0m"
    assert masking.text(line) == "token=<hidden> step=7"


KEY = next(scene for scene in PLANTED if scene[0].text == "-----BEGIN RSA PRIVATE KEY-----")


def test_a_key_interleaved_with_other_pods_lines_is_masked() -> None:
    stream, shown = masking.Stream(), []
    for number, line in enumerate(KEY):
        shown.append(stream.masked(f"[pod/a/ray] {line.text}\n"))
        other = f"[pod/b/ray] step {number} reward 0.5\n"
        assert stream.masked(other) == other
    assert [line.text for line in KEY if line.leaks_in("".join(shown))] == []


def test_a_truncated_key_does_not_hide_the_cause() -> None:
    stream = masking.Stream()
    for line in KEY[:-1]:
        stream.masked(f"{line.text}\n")
    for text in (
        "Killed\n",
        "torch.OutOfMemoryError: CUDA out of memory\n",
        "commit 0123456789abcdef0123456789abcdef01234567\n",
    ):
        assert stream.masked(text) == text


CHARACTERS = tuple("-1'\":=aA/@[](){} \t\\,;&#<>|._\n")
WORDS = (
    *("://", "x://a:", "aB3/", '\\"', "token", "token: ", "token=", "token=$", 'token:"$', "--token ", "password is "),
    *(
        "password for a: the ",
        "api key ",
        "pass",
        "auth=",
        "_proxy=a:",
        "curl -u ",
        "cookie: a=",
        "cookie={'",
        "bearer ",
    ),
    *("authorization: ", "eyJ", "eyJaaaaaaaaaa.", "&sig=", "machine a login b ", "-----BEGIN ", "name: ", 'value="'),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----END ",
        'value: "a", ',
        "hf_",
        "sk-",
        "wandb_key ",
        "xapp-1-",
        "password: |\n",
    ),
)
PARTS = st.builds(
    lambda text, times: text * times, st.sampled_from((*CHARACTERS, *WORDS)), st.sampled_from((1, 3, 400))
)
SIZE = 100_000


def long_text(unit: str) -> str:
    return (unit * (SIZE // len(unit) + 1))[:SIZE]


@pytest.mark.parametrize("unit", [*CHARACTERS, *WORDS])
def test_the_worst_characters_are_masked_quickly(unit: str) -> None:
    """16,000 dashes took 80 s; the slowest of these takes less than a second."""
    with limited(10):
        masking.text(long_text(unit))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=5).map("".join))
def test_mixtures_are_masked_quickly(unit: str) -> None:
    with limited(10):
        masking.text(long_text(unit))
