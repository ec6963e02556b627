"""The page of `grpo report` in a headless Chromium, light and dark, wide and narrow: what a reader sees of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from tests.report.chromium import Browser, Page
from tests.runlog import logs
from tests.runlog.test_hand_counts import NEMO_RL, VERL

LOOK = (Path(__file__).parent / "look.js").read_text("utf-8")
# WCAG 2.2: 1.4.3 for text, 1.4.11 for what a graph draws.
TEXT, DRAWN = 4.5, 3.0
SCHEMES = "light", "dark"
# A window on a laptop, and a telephone held upright.
WIDTHS = 1280, 390
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}
VIEWS = list(itertools.product(("one", "two", "four"), SCHEMES, WIDTHS))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the page of a run that has samples and an error, of two real runs, and of four with a long name."""
    folder = tmp_path_factory.mktemp("pages")
    dead = folder / "dead"
    (dead / "attempts/1").mkdir(parents=True)
    (dead / "logs/exp_001").mkdir(parents=True)
    (dead / "attempts/1/output.log").write_text(logs.nemo_rl(steps=70, reward=0.0, loss=0.0))
    row = '{"content": ["1 + 1", "2"], "rewards": 0.0}\n'
    (dead / "logs/exp_001/train_data_step70.jsonl").write_text(row * 4)
    slow = folder / f"{'a-run-with-a-long-name-' * 3}.log"
    clipped = {**logs.VERL, "response_length/clip_ratio": 0.4}
    slow.write_text("".join(logs.verl(number, clipped) for number in range(1, 9)))
    given = {"one": [dead], "two": [NEMO_RL, VERL], "four": [NEMO_RL, VERL, dead, slow]}
    for name, runs in given.items():
        code = cli.main(["report", *map(str, runs), "-o", str(folder / f"{name}.html")])
        assert code == (name != "two")
    return {name: folder / f"{name}.html" for name in given}


def look(page: Page) -> Any:
    return page.value(LOOK)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    VIEWS,
)
def test_the_page_fits_and_is_legible_in_every_theme_and_width(
    browser: Browser, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    with browser.page(pages[name], width, scheme) as page:
        seen = look(page)
        assert seen["graphs"] == [1] * len(seen["graphs"]), "each graph is drawn once"
        assert len(seen["graphs"]) >= 6
        assert seen["paper"] == PAPER[scheme]
        assert seen["scroll"] <= seen["width"] == width
        assert len(seen["texts"]) > 100
        assert sum(each["where"] == "graph" for each in seen["texts"]) > 50
        assert [each for each in seen["texts"] if each["contrast"] is None or each["contrast"] < TEXT] == []
        assert [each for each in seen["texts"] if not each["inside"]] == []
        assert [each for each in seen["texts"] if not each["scrolls"] and each["right"] > width] == []
        # A thin line is the one behind the mean of the last steps.
        assert [each for each in seen["lines"] if each["width"] >= 2 and each["contrast"] < DRAWN] == []
        assert page.complaints() == []
        assert page.requests() == [pages[name].as_uri()]


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
def test_two_runs_can_be_told_apart(browser: Browser, pages: dict[str, Path], width: int) -> None:
    with browser.page(pages["two"], width, "dark") as page:
        seen = look(page)
        told = [each["text"] for each in seen["texts"]]
        # At the top, above its findings, in the table, and in the legend of the graphs.
        assert [told.count(log.name) >= 4 for log in (NEMO_RL, VERL)] == [True, True]
        # Names and numbers are not broken within a word, on a narrow screen neither.
        lines = dict(
            page.value(
                "[...document.querySelectorAll('.figures td .word, .figures thead .word')]"
                ".map(each => [each.textContent, each.getClientRects().length])"
            )
        )
        assert {NEMO_RL.name, VERL.name, "difference", "+4.06e-09"} <= set(lines)
        assert set(lines.values()) == {1}
        strokes = {each["stroke"] for each in seen["lines"]}
        assert len(strokes) == 2


@pytest.mark.full
def test_pointing_at_a_step_shows_its_numbers(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["two"], 1280, "dark") as page:
        look(page)
        place = page.value(
            "(() => { const mark = document.querySelector('#graph-0 .mark-symbol path');"
            " mark.scrollIntoView({block: 'center'}); const box = mark.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        seen = look(page)
        tip = [each for each in seen["texts"] if "vg-tooltip" in each["where"] or each["where"].startswith("<td")]
        assert {"step", NEMO_RL.name, "Reward", "0.3789"} <= {each["text"] for each in tip}
        assert [each for each in tip if each["contrast"] < TEXT] == []
        assert page.complaints() == []
