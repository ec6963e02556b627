"""grpo report: its figures, its page, two runs side by side, and what a log must not do to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.report.runs import figures, graphs, phases, points
from grpo.report.runs.run import Run, read_all
from grpo.runlog.shared import Step, Validation
from tests.conftest import ROOT
from tests.runlog import logs

Command = Callable[..., tuple[int, str, str]]
EVIL = "<script>alert(1)</script>"
# A slash would make it a part of another phase, which is not drawn.
PHASE = "<script>alert(2)<b>"


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["report", *map(str, words)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "driver.log"
    path.write_text(logs.nemo_rl(steps=24, reward=[step / 32 for step in range(24)]))
    return path


def test_a_missing_output_folder_is_reported_before_the_log_is_read(grpo: Command, tmp_path: Path) -> None:
    output = tmp_path / "nowhere" / "x.html"
    code, out, err = grpo(tmp_path / "none.log", "-o", output)
    assert (code, out) == (3, "")
    assert err == (
        f"{output}: cannot be written: there is no folder {output.parent}\n  fix: create it, or name another file\n"
    )


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, texts outside of scripts, and the specifications."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.specifications, self._open = "", "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = "json" if dict(attrs).get("id") == "specifications" else tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "json":
            self.specifications += data
        elif self._open not in ("script", "style"):
            self.text += data

    def graphs(self) -> list[dict[str, Any]]:
        found = json.loads(self.specifications)
        assert isinstance(found, list)
        return found


def rows(specification: Any) -> list[dict[str, Any]]:
    """Return all data of a specification, wherever it stands."""
    if isinstance(specification, list):
        return [row for each in specification for row in rows(each)]
    if not isinstance(specification, dict):
        return []
    shared = [row for each in specification.get("datasets", {}).values() for row in each]
    return [*shared, *specification.get("values", []), *(row for each in specification.values() for row in rows(each))]


def page(grpo: Command, *words: object) -> Page:
    code, out, err = grpo(*words)
    assert (code, err) == (0, "")
    return Page(out)


def steps(count: int, **measures: Any) -> list[Step]:
    return [Step(number, **measures) for number in range(1, count + 1)]


def verl(numbers: range, reward: float, clipped: float = 0.0) -> str:
    """Return a log of verl with a validation after every second step."""
    measures = {**logs.VERL, "critic/score/mean": reward, "response_length/clip_ratio": clipped}
    tested = {**measures, "val-core/gsm8k/reward/mean@1": reward}
    return "".join(logs.verl(number, measures if number % 2 else tested) for number in numbers)


def values(runs: list[Run]) -> dict[str, list[float | None]]:
    return {figure.id: list(figure.values) for figure in figures.figures(runs)}


def test_the_figures_match_a_count_by_hand(log: Path) -> None:
    """The rewards are 0 to 23, divided by 32: the first ten have the mean 4.5 / 32, the last ten 18.5 / 32."""
    found = {name: each for name, (each,) in values(read_all([str(log)])).items()}
    assert found == {
        "steps": 24,
        "firstStep": 1,
        "lastStep": 24,
        "seconds": 24 * 50.0,
        "stepSeconds": 50.0,
        "rewardFirstMean": pytest.approx(4.5 / 32, abs=1e-4),
        "rewardLastMean": pytest.approx(18.5 / 32, abs=1e-4),
        "lengthFirstMean": 200.5,
        "lengthLastMean": 200.5,
        "generationKlFirstMean": 0.0007,
        "generationKlLastMean": 0.0007,
        "tokensPerSecondPerGpu": 640.5,
    }


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (4.46, 4.44, "0"),
        (4.44, 4.46, "0"),
        (4.0, 4.0, "0"),
        (4.0, 5.0, "+1 (+25%)"),
        (5.0, 4.0, "-1 (-20%)"),
        (0.0, 4.0, "+4"),
    ],
)
def test_a_difference_that_rounds_to_zero_has_no_sign(first: float, second: float, difference: str) -> None:
    runs = [Run(name, name, steps(3, length=each)) for name, each in (("a", first), ("b", second))]
    (length,) = (each for each in figures.figures(runs) if each.id == "lengthLastMean")
    assert length.difference(1) == difference


def test_all_graphs_share_one_step_axis() -> None:
    """Also those of a measure that one run does not have; there is room for a validation before the first step."""
    runs = [
        Run("a", "a", steps(3, entropy=0.5, seconds=1.0), [Validation(0, 0.5)]),
        Run("b", "b", steps(8, reward=1.0, seconds=1.0)),
    ]
    drawn = graphs.graphs(runs)
    axes = [
        layer["encoding"]["x"]["scale"]
        for graph in drawn
        for layer in graph.specification.get("layer", [graph.specification])
        if "scale" in layer["encoding"]["x"]
    ]
    assert len(axes) == len(drawn) == 4
    assert axes == [{"domain": [-0.5, 8.5], "nice": False}] * 4


@pytest.mark.full
def test_measures_missing_from_the_log_are_named_and_not_drawn(grpo: Command, log: Path) -> None:
    shown = page(grpo, log)
    missing = "Truncated answers, KL from the reference model, Importance ratio, Entropy, Gradient norm"
    assert f"Not in the log: {missing}, Memory of a GPU, highest, Validation." in shown.text
    titles = re.findall(r"graph-\d+", " ".join(str(each.get("id")) for _, each in shown.elements))
    assert len(titles) == len(shown.graphs()) == 6
    drawn = [row for graph in shown.graphs() for row in rows(graph)]
    assert drawn
    assert None not in [row.get("value", row.get("seconds")) for row in drawn]
    assert not re.search("Entropy|Gradient norm", " ".join(str(each.get("aria-label")) for _, each in shown.elements))


def test_a_measure_missing_from_one_run_is_not_reported_as_zero() -> None:
    runs = [Run("a", "a", steps(3, entropy=0.5)), Run("b", "b", steps(3, reward=1.0))]
    (entropy,) = (each for each in figures.figures(runs) if each.id == "entropyLastMean")
    assert (entropy.text(1), entropy.difference(1)) == ("not in the log", "")
    assert next(graph.text for graph in graphs.graphs(runs) if graph.title == "Entropy").endswith("b: not in the log")


def test_a_steps_phases_add_up_to_its_time() -> None:
    run = Run("a", "a", [Step(1, seconds=10.0, phases={"training": 6.0, "generation": 3.0, "generation/part": 2.0})])
    parts = list(phases.parts(run, phases.longest([run])))
    assert parts == [(1, "training", 6.0), (1, "generation", 3.0), (1, phases.REST, 1.0)]
    assert not phases.overlap(run, phases.longest([run]))
    run.steps[0].phases["ref"] = 4.0
    assert phases.overlap(run, phases.longest([run]))


def test_a_long_run_is_drawn_as_means_that_cover_every_step_once() -> None:
    """The figures and texts are those of all steps; only what is drawn and the table is thinner."""
    training = {"training": 1.5}
    validated = {**training, "validation": 0.5}
    long = [
        Step(number, reward=number / 4000, seconds=2.0, phases=training if number % 4 else validated)
        for number in range(1, 3999)
    ]
    long[2999].reward = 7.0
    runs = [Run("a", "a", long), Run("b", "b", steps(5, reward=0.5, seconds=1.0))]
    assert points.size(runs) == 4
    reward, time_a, time_b = graphs.graphs(runs)
    drawn = [row for row in rows(reward.specification) if row["run"] == "a"]
    assert [row["step"] for row in drawn] == list(range(1, 3998, 4))
    assert drawn[0]["value"] == pytest.approx(2.5 / 4000)
    assert "a: from 0.0003 at step 1 to 0.9995 at step 3998, lowest 0.0003 at step 1, highest 7.0000 at step 3000" in (
        reward.text
    )
    assert reward.note.startswith("a point is the mean of 4 steps, thick: mean of the last 10 points")
    assert time_a.note == "a point is the mean of 4 steps"
    bars = rows(time_a.specification)
    first = {bar["phase"]: bar["seconds"] for bar in bars if bar["step"] == 1}
    assert first == {"training": 1.5, "validation": 0.125, phases.REST: 0.375}
    rest = [(bar["start"], bar["end"]) for bar in bars if bar["phase"] == phases.REST]
    assert [end for _, end in rest[:-1]] == [start for start, _ in rest[1:]]
    assert (rest[0][0], rest[-1][1]) == (0.5, 3998.5)
    assert [(bar["start"], bar["end"]) for bar in rows(time_b.specification)] == [(0.5, 4.5), (4.5, 5.5)]
    assert values(runs)["steps"] == [3998, 5]


def test_a_mean_over_a_non_finite_value_is_not_a_number_either() -> None:
    """So a gap in the line stays where it is."""
    inf = float("inf")
    run = points.thin(Run("a", "a", [Step(1, loss=inf), Step(2, loss=-inf), Step(3, loss=1.0), Step(4)]), 2)
    assert [(step.number, str(step.loss)) for step in run.steps] == [(1, "nan"), (3, "1.0")]


def test_a_page_with_many_steps_is_small_and_says_that_it_shows_means(
    grpo: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of thousands, where a graph may have a thousand points."""
    monkeypatch.setattr(points, "MOST", 100)
    path = tmp_path / "long.log"
    path.write_text(verl(range(1, 301), 0.5))
    shown = page(grpo, path)
    assert "Means of every 3 steps" in shown.text
    assert points.MOST <= max(len(rows(graph)) for graph in shown.graphs()) <= 8 * points.MOST
    # The table of figures has rows too.
    assert points.MOST <= len(re.findall("'scope': 'row'", str(shown.elements))) < points.MOST + 100


def test_a_step_or_validation_repeated_by_a_resumed_run_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "both.log"
    first, again = (verl(range(1, 6), 0.1), verl(range(4, 8), 0.9))
    path.write_text(first + again)
    (run,) = read_all([str(path)])
    assert [(step.number, step.reward) for step in run.steps] == [
        *((number, 0.1) for number in (1, 2, 3)),
        *((number, 0.9) for number in (4, 5, 6, 7)),
    ]
    assert [(each.number, each.reward) for each in run.validations] == [(2, 0.1), (4, 0.9), (6, 0.9)]


def test_two_runs_share_axes_and_show_their_difference(grpo: Command, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text(logs.nemo_rl(steps=30, reward=0.5))
    shown = page(grpo, log, other)
    assert "Differences are relative to driver.log." in shown.text
    assert "Time of all steps (s)12001500+300 (+25%)" in shown.text
    assert "the runs end at different steps" in shown.text
    assert {row["run"] for row in rows(shown.graphs()[0])} == {"driver.log", "other.log"}
    times = [graph["encoding"] for graph in shown.graphs() if "x2" in graph.get("encoding", {})]
    assert len(times) == 2
    assert times[0]["x"]["scale"] == times[1]["x"]["scale"] == {"domain": [0.5, 30.5], "nice": False}
    assert times[0]["y"]["scale"] == times[1]["y"]["scale"] == {"domain": [0, 50.0]}


def test_runs_with_the_same_file_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name / "driver.log" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(logs.nemo_rl(steps=1))
    assert [run.name for run in read_all([str(path) for path in paths])] == [str(path) for path in paths]
    assert [run.name for run in read_all([str(paths[0])] * 2)] == [str(paths[0]), f"{paths[0]} (2)"]


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A run whose name, phases and samples are markup."""
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    (folder / "logs/exp_001").mkdir(parents=True)
    (folder / "attempts/1").mkdir(parents=True)
    text = logs.nemo_rl(steps=3).replace("some_new_timer", PHASE)
    assert PHASE in text
    (folder / "attempts/1/output.log").write_text(text)
    token = "hf_" + "Ab1" * 12
    # The second one where a long text is cut.
    signed = f"https://a.example.org/b?X-Amz-Signature={token[3:]}"
    long = f"{EVIL}\x1b[31m {token} {signed}".ljust(3990, "x") + f" {token}"
    rows = [{"content": [[EVIL, long, "</pre>"]], "rewards": [index / 4]} for index in range(4)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "logs/exp_001/train_data_step3.jsonl").write_text(lines)
    return folder


def test_text_from_a_log_is_escaped(grpo: Command, evil: Path) -> None:
    code, out, _ = grpo(evil)
    shown = Page(out)
    assert code == 0
    assert sum(tag == "script" for tag, _ in shown.elements) == 3
    assert not [tag for tag, attributes in shown.elements if tag == "img" or "onerror" in attributes]
    assert EVIL in shown.text
    assert "Sample 3, reward 0.75" in shown.text
    assert any(PHASE in str(graph) for graph in shown.graphs())
    assert "<" not in shown.specifications
    assert "hf_Ab1" not in out
    assert "Ab1Ab1" not in out
    assert "\x1b" not in out
    _, markdown, _ = grpo(evil, "--format", "markdown")
    assert "<" not in markdown.removeprefix("<!-- Written by grpo report. -->\n").replace("\\<", "")


def test_the_page_loads_nothing_from_elsewhere(grpo: Command, log: Path) -> None:
    shown = page(grpo, log)
    assert not [each for _, each in shown.elements if {"src", "href", "action", "data", "poster"} & {*each}]
    (policy,) = (each["content"] for tag, each in shown.elements if each.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    assert "http" not in re.sub(r'"\$schema": "[^"]+"', "", shown.specifications)


def test_the_page_has_a_title_headings_and_alternative_text_for_each_graph(grpo: Command, log: Path) -> None:
    shown = page(grpo, log)
    tags = [tag for tag, _ in shown.elements]
    assert tags.count("h1") == tags.count("title") == tags.count("main") == 1
    labels = [each.get("aria-label") or "" for _, each in shown.elements if each.get("role") == "img"]
    assert len(labels) == len(shown.graphs())
    assert labels[0] == (
        "Reward. driver.log: from 0.0000 at step 1 to 0.7188 at step 24, lowest 0.0000 at step 1, "
        "highest 0.7188 at step 24"
    )


@pytest.mark.full
def test_a_separate_process_writes_the_same_bytes(grpo: Command, log: Path) -> None:
    command = [sys.executable, "-m", "grpo.cli", "report", str(log), str(log)]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    assert first.decode() == grpo(log, log)[1]
    assert len(first) < 1_500_000


def test_findings_come_first_and_determine_the_exit_code(grpo: Command, tmp_path: Path) -> None:
    path = tmp_path / "dead.log"
    path.write_text(logs.nemo_rl(steps=7, reward=0.0, loss=0.0))
    output = tmp_path / "report.html"
    assert grpo(path, "-o", output) == (1, "", f"{output}: 7 steps, 1 finding\n")
    shown = Page(output.read_text())
    assert shown.text.index("run/dead-reward") < shown.text.index("Reward, mean of the first 10")
    assert "driver.log has fewer" not in shown.text
    code, out, _ = grpo(path, "--format", "json", "--fail-on", "error")
    (told,) = json.loads(out)["runs"]
    assert (code, [each["rule"] for each in told["findings"]]) == (1, ["run/dead-reward"])
    assert "1 findings" not in out
    code, out, _ = grpo(path, "--format", "markdown")
    assert (code, "- **error** `run/dead-reward`: step 3" in out) == (1, True)


def test_the_values_set_the_threshold_for_a_sign(grpo: Command, tmp_path: Path) -> None:
    path, values = tmp_path / "dead.log", tmp_path / "values.yaml"
    path.write_text(logs.nemo_rl(steps=7, reward=0.0, loss=0.0))
    values.write_text("job: {guard: {limits: {deadSteps: 5}}}\n")
    code, out, _ = grpo(path, "--format", "markdown", "-f", values)
    assert (code, "- **error** `run/dead-reward`: step 5" in out) == (1, True)
    assert "- the values files change from when on a measure is a sign: deadSteps 5 (default 3)\n" in out
    assert "a measure is a sign" not in grpo(path, "--format", "markdown")[1]
    values.write_text("job: {guard: {limits: {deadSteps: 8}}}\n")
    assert grpo(path, "--format", "json", "-f", values)[0] == 0
    values.write_text("job: {guard: {limits: {deadSteps: many}}}\n")
    code, out, err = grpo(path, "--format", "json", "-f", values)
    assert (code, out) == (2, "")
    assert f'{values}:1:35: job.guard.limits.deadSteps is "many", expected an integer' in err


def test_a_warning_fails_only_on_request(grpo: Command, tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    path.write_text(verl(range(1, 9), 0.5, clipped=0.4))
    assert grpo(path, "--format", "json")[0] == 0
    assert grpo(path, "--format", "json", "--fail-on", "warning")[0] == 1


def test_non_finite_numbers_are_noted_and_leave_a_gap(grpo: Command, tmp_path: Path) -> None:
    runs = [Run("a", "a", [Step(1, loss=0.5), Step(2, loss=float("nan"))], [Validation(1, float("inf"))])]
    (loss,) = (each for each in graphs.graphs(runs) if each.title == "Loss")
    assert "gaps: the value is not a number" in loss.note
    assert json.dumps(loss.specification, allow_nan=False)
    path = tmp_path / "nan.log"
    path.write_text(logs.nemo_rl(steps=4, loss=float("nan")))
    assert grpo(path, "-o", tmp_path / "nan.html")[0] == 1
    code, out, _ = grpo(path, "--format", "json")
    assert (code, json.loads(out)["runs"][0]["steps"][0]["loss"]) == (1, "nan")


@pytest.mark.parametrize(
    ("words", "expected", "message"),
    [
        (
            ("driver.log", "-o", "other.log"),
            3,
            "other.log: a report in the format html does not end with .log\n  fix: name a file",
        ),
        (("driver.log", "-o", "r.html", "--format", "json"), 3, "in the format json does not end with .html"),
        (("driver", "-o", "./driver"), 2, "./driver: is a file that is to be read"),
        (("driver.log", "-o", "driver"), 2, "driver: was not written by this command"),
        (("driver.log", "-o", "driver", "--format", "json"), 2, "driver: was not written by this command"),
        (("driver.log", "-o", "driver", "--format", "markdown"), 2, "driver: was not written by this command"),
    ],
)
def test_a_log_is_never_overwritten(
    grpo: Command, log: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: int, message: str
) -> None:
    monkeypatch.chdir(log.parent)
    for name in ("other.log", "driver"):
        (log.parent / name).write_text(log.read_text())
    before = {path.name: path.read_text() for path in log.parent.iterdir() if path.is_file()}
    found, out, err = grpo(*words)
    assert (found, out) == (expected, "")
    assert message in err
    assert {path.name: path.read_text() for path in log.parent.iterdir() if path.is_file()} == before


def test_a_values_file_is_never_overwritten(grpo: Command, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.parent)
    values, link = Path("values.json"), Path("link.json")
    values.write_text('{"job": {"guard": {"limits": {"deadSteps": 5}}}}')
    link.symlink_to(values)
    before = values.read_text()
    code, out, err = grpo("driver.log", "--format", "json", "-f", values, "-o", link)
    assert (code, out, values.read_text()) == (2, "", before)
    assert "link.json: is a symbolic link" in err


def test_findings_are_sorted_by_severity_and_then_by_first_step(tmp_path: Path) -> None:
    path = tmp_path / "bad.log"
    rows = [{**logs.VERL, "response_length/clip_ratio": 0.4}] * 14
    rows += [{**logs.VERL, "response_length/mean": 1000}] * 4 + [{**logs.VERL, "actor/pg_loss": "nan"}] * 3
    path.write_text(logs.verl_run(rows))
    (run,) = read_all([str(path)])
    assert [each.rule for each in run.findings] == ["run/not-a-number", "run/truncated", "run/length-explosion"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "0 logs are given, expected 1 to 4"),
        (("empty.log", "--format", "json"), 2, "the file is empty"),
        (
            ("absent.log", "-o", "report.html"),
            3,
            "there is no such file\n  fix: name the log, the directory of a run, - for stdin, or a RayJob with "
            "--namespace\n",
        ),
        (("driver.log", "--format", "markdown", "-o", "no/such/folder"), 3, "cannot be written"),
    ],
)
def test_an_impossible_report_is_explained_with_a_fix(
    grpo: Command, log: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(log.parent)
    (log.parent / "empty.log").write_text("")
    found, out, err = grpo(*words)
    assert (found, out) == (code, "")
    assert message in err
    assert "fix: " in err


@pytest.mark.full
def test_the_other_formats_work_without_the_optional_libraries(log: Path) -> None:
    def run(form: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; sys.modules['vl_convert'] = None; from grpo.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "report", str(log), "--format", form]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    done = run("html")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "the page needs a library that is not installed: vl_convert\n"
        "  fix: pip install 'grpo-charts[report]', or --format markdown\n"
    )
    assert run("markdown").returncode == 0
