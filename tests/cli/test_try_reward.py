"""grpo try-reward: rewards and prompts as the run loads them, over built-in samples and those of a file."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.cli import main as cli
from grpo.helm import local
from grpo.rewards import files, samples
from grpo.rewards.files import RewardFiles
from postrender.values import merge
from tests.conftest import RECIPES, ROOT, stack_files, thin
from tests.docs import pages
from tests.recipes.rendered import nemo_rl_recipes

# First, because the program would import the copy in its folder, which does not last.
importlib.import_module("rewards")
program = importlib.import_module("try_rewards")

Run = Callable[..., tuple[int, str, str]]
STACK = [word for path in stack_files() for word in ("-f", str(path))]
EXAMPLE = ROOT / "values/examples/rewards.yaml"
GOOD = "def reward(truth, response, **kwargs):\n    return float(truth in response), truth in response\n"


@pytest.fixture
def apart(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command as it is: the rewards run in a process of their own."""

    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["try-reward", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def grpo(apart: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command, and the rewards in this process: another one takes longer to start than all else."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(local, "run", lambda path, words, *_: program.main(words))
    return apart


def of_file(text: str, folder: Path) -> list[str]:
    """Return the words that give a reward as a file."""
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return [*STACK, "--set-file", f"job.rewards.mine.file={folder / 'mine.py'}"]


def test_the_example_gets_the_scores_in_its_table(apart: Run) -> None:
    code, out, err = apart(*STACK[:4], "-f", EXAMPLE, *STACK[4:])
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "prompt of the first sample: job.prompts.tags"
    assert "  A box holds 12 pencils. How many pencils are in 6 boxes?" in lines
    heading, *table = lines[lines.index("") + 1 :]
    assert " ".join(heading.split()) == "sample format × 0.2 answer × 0.8 length × 0.5 score correct"
    assert [row.split()[-2:] for row in table[:4]] == [["1", "yes"], ["0.2", "no"], ["0", "no"], ["0", "no"]]
    assert lines[-1] == "possible score: -0.5 to 1"
    page = (ROOT / "docs/howto/own-reward.md").read_text(encoding="utf-8")
    (shown,) = pages.blocks(page, "text")
    assert shown in out


def test_scores_are_printed_as_json(grpo: Run) -> None:
    code, out, _ = grpo(*STACK[:4], "-f", EXAMPLE, *STACK[4:], "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["bounds"] == [-0.5, 1.0]
    assert [each["name"] for each in found["samples"]] == ["right", "wrong", "empty", "badly formed"]
    assert found["samples"][0]["parts"] == {"format": 1.0, "answer": 1.0, "length": 0.0}
    assert "How many pencils" in found["prompt"]["first"]
    assert (found["problems"], found["warnings"]) == ([], [])


def test_the_loaded_rewards_are_those_the_chart_gives_to_the_run(render: Callable[..., Any]) -> None:
    values = {"job": {"rewards": {"mine": {"file": GOOD, "kwargs": {"a": 1}}, "length": None, "answer": {"weight": 2}}}}
    files = [ROOT / "values/accelerators/b200.yaml", ROOT / "values/recipes/gemma3-27b-gsm8k.yaml", EXAMPLE]
    objects = render("grpo-job", values, files=[*files, stack_files()[2]])
    job = next(each for each in objects if each["kind"] == "RayJob")
    text = job["spec"]["entrypoint"].split("cat >\"$programs/rewards.json\" <<'GRPO_FILE'\n")[1]
    merged = merge.load([*map(str, files)]).as_helm_merges()
    ours = RewardFiles(_values(merge.overlay(merged, values)), ())
    assert ours.entries == json.loads(text.split("\nGRPO_FILE\n")[0])
    assert ours.texts == {"mine.py": GOOD}


def _values(tree: dict[str, Any]) -> Any:
    class Given:
        def effective(self) -> Any:
            return merge.without_nulls(tree)

    return Given()


PAIR = "def reward(truth, response, **kwargs):\n    ok = truth in response\n    return {}\n"


@pytest.mark.parametrize(
    ("pair", "is_told"),
    [
        ("ok, 1.0 if ok else 0.1", True),
        ("[ok, 2]", True),
        ("ok, float(ok)", False),
        ("float(ok), ok", False),
        ("ok, ok", False),
        ("ok, None", False),
    ],
)
def test_a_swapped_return_pair_is_reported(pair: str, is_told: bool, grpo: Run, tmp_path: Path) -> None:
    code, out, _ = grpo(*of_file(PAIR.format(pair), tmp_path))
    assert code == 0
    assert ("the pair looks exchanged: it is (score, correct)" in out) == is_told


def test_a_swapped_return_pair_is_reported_once(grpo: Run, tmp_path: Path) -> None:
    _, out, _ = grpo(*of_file(PAIR.format("ok, 1.0 if ok else 0.1"), tmp_path))
    assert out.count("the pair looks exchanged") == 1
    assert "warning: reward mine returns (False, 0.1) for sample wrong, a flag in the place of the score" in out


SWAPPED = "def reward(response, truth, **kwargs):\n    return float({}), None\n"


@pytest.mark.parametrize("judges", ["truth in response", "response.endswith(truth) or 'r>' + truth in response"])
def test_swapped_arguments_are_reported(judges: str, grpo: Run, tmp_path: Path) -> None:
    code, out, _ = grpo(*of_file(SWAPPED.format(judges), tmp_path))
    assert code == 0
    assert "warning: reward mine gives 0 to sample right, and 1 with the two texts exchanged: the arguments look" in out
    assert "swapped: the function is called as reward(ground_truth, response)" in out


def test_swapped_arguments_are_reported_for_samples_from_a_file(grpo: Run, tmp_path: Path) -> None:
    rows = [
        {"prompt": "a", "ground_truth": 72, "response": "It is 72."},
        {"prompt": "b", "ground_truth": "yes", "response": "It is no."},
    ]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = grpo(*of_file(SWAPPED.format("truth in response"), tmp_path), "--sample", tmp_path / "own.jsonl")
    assert "gives 0 to sample line 1, and 1 with the two texts exchanged" in out


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "def reward(ground_truth, response, **kwargs):\n    return float(len(response) < 9), None\n",
        "def reward(ground_truth, response, **kwargs):\n    return 0.0, None\n",
        "def reward(ground_truth, response, **kwargs):\n    return float(response == ground_truth), None\n",
        "def reward(ground_truth, response, **kwargs):\n    return 1 / 0\n",
    ],
)
def test_correct_arguments_are_not_reported_as_swapped(text: str, grpo: Run, tmp_path: Path) -> None:
    _, out, _ = grpo(*of_file(text, tmp_path))
    assert "swapped" not in out
    assert out.count("ZeroDivisionError") in (0, 4)


@pytest.mark.parametrize("recipe", thin(RECIPES, 4))
def test_a_recipe_without_rewards_is_told_how_its_framework_scores(recipe: str, grpo: Run) -> None:
    words = [word for path in stack_files(recipe=recipe) for word in ("-f", str(path))]
    code, out, err = grpo(*words)
    assert (code, err) == (0, "")
    framework = "NeMo RL v" if recipe in nemo_rl_recipes() else "verl "
    assert out.startswith(f"job.rewards is empty, so there is nothing to try: {framework}")
    assert " scores with its" in out


def test_the_verl_prompt_is_the_question_plus_the_instruction(grpo: Run) -> None:
    words = [word for path in stack_files(recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(path))]
    code, out, _ = grpo(*words, "--set", "job.rewards.a.builtin=exact_answer")
    assert code == 0
    assert "How many pencils are in 6 boxes?\n  \n  Think step by step. The last line of your reply must be ####" in out
    own = ["--set-string", "job.prepareData.gsm8k.instruction=Answer in a box."]
    assert "\n  Answer in a box.\n" in grpo(*words, "--set", "job.rewards.a.builtin=exact_answer", *own)[1]


# -- what is wrong


def test_an_exception_is_shown_with_the_line_of_the_values_file(grpo: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = """
        job:
          rewards:
            mine:
              file: |
                def reward(ground_truth, response, **kwargs):
                    return 1 / len(response), None
    """
    file.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    code, out, _ = grpo(*STACK, "-f", file)
    assert code == 1
    assert f"error: {file}:6: reward mine fails on sample empty and scores 0.0: ZeroDivisionError" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ndef reward(:\n", "error: {}:2: "),
        ("import nothing_like_it\n", "No module named 'nothing_like_it' ({}:1): libraries of the image"),
        ("x = 1\n", "mine.py defines no function reward("),
        (GOOD.replace("float(", "[].x, float("), "error: {}:2: reward mine fails on sample right"),
        ("def reward(a, b, **kwargs):\n    return 1\n", "reward mine fails on sample right and scores 0.0: TypeError"),
    ],
)
def test_a_mistake_in_a_file_is_shown_with_its_line(text: str, said: str, grpo: Run, tmp_path: Path) -> None:
    code, out, _ = grpo(*of_file(text, tmp_path))
    assert code == 1
    assert said.format(tmp_path / "mine.py") in out


def test_a_reward_that_exits_its_process_is_reported(apart: Run, tmp_path: Path) -> None:
    code, out, _ = apart(*of_file("import os\ndef reward(a, b, **kwargs):\n    os._exit(3)\n", tmp_path))
    assert code == 1
    assert "ended with 3 at sample right" in out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os.unlink(path); os.mkfifo(path)", "before the first sample"),
        ("os.unlink(path); os.symlink('/dev/zero', path)", "before the first sample"),
        ("open(path, 'w').write('{}\\n{}\\n{}\\n{}\\n')", "a reward has written over the results"),
        ("open(path, 'w').write('{}\\n1\\n1\\n1\\n')", "a reward has written over the results"),
    ],
)
def test_a_reward_that_tampers_with_the_results_is_reported(line: str, said: str, apart: Run, tmp_path: Path) -> None:
    text = f"""\
        import os, sys

        def reward(a, b, **kwargs):
            path = os.path.join(sys.argv[1], "results.jsonl")
            {line}
            os._exit(0)
    """
    code, out, _ = apart(*of_file(textwrap.dedent(text), tmp_path))
    assert (code, said in out) == (1, True), out


def test_a_reward_that_does_not_return_is_stopped(apart: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over when the reward is asked."""
    pid, wait = tmp_path / "pid", subprocess.Popen.wait

    def over(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout != 6:
            return wait(process, timeout)
        deadline = time.monotonic() + 120
        while not pid.exists():
            assert (process.poll(), time.monotonic() < deadline) == (None, True)
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", over)
    text = f"""
        import os, time
        SECONDS = 600
        def reward(a, b, **k):
            with open({str(pid) + "-"!r}, "w") as file:
                file.write(str(os.getpid()))
            os.rename(file.name, {str(pid)!r})
            time.sleep(120)
            os.remove({str(pid)!r})
            os._exit(0)
    """
    code, out, _ = apart(*of_file(textwrap.dedent(text), tmp_path), "--timeout", 6)
    assert code == 1
    assert "error: the rewards did not end within 6 s: scoring sample right" in out
    assert not Path(f"/proc/{pid.read_text()}").exists()


# A child in a session of its own, and its child in another one, which both outlive their parents.
AWAY = """
    import os, sys, time
    def away(depth):
        if os.fork():
            return
        os.setsid()
        if depth:
            away(depth - 1)
        with open({folder!r} + "/pid-" + str(os.getpid()), "w"):
            os.write(ready[1], b"x")
        time.sleep(600)
        os._exit(0)
    ready = os.pipe()
    away(1)
    os.read(ready[0], 1), os.read(ready[0], 1)
    def reward(a, b, **k):
        return 0.5, None
"""


def test_a_detached_child_process_is_killed_with_the_rewards(apart: Run, tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        text = textwrap.dedent(AWAY.format(folder=str(tmp_path)))
        code, _, err = apart(*of_file(text, tmp_path))
        assert (code, err) == (0, "")
        left = [path.name.partition("-")[2] for path in tmp_path.glob("pid-*")]
        assert len(left) == 2
        assert not [pid for pid in left if Path(f"/proc/{pid}").exists()]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_long_output_is_shortened_to_its_beginning_and_end(apart: Run, tmp_path: Path) -> None:
    text = """
        print("first")
        for number in range(100_000):
            print("noise", number, "hf_" + "aB3" * 8)
        print("last")
        def reward(a, b, **k):
            return float("6" in b), None
    """
    code, _, err = apart(*of_file(textwrap.dedent(text), tmp_path))
    lines = err.splitlines()
    assert (code, lines[0], lines[-1]) == (0, "first", "last")
    assert len(err) < 3 * local.KEPT
    assert [line for line in lines if line.endswith(" bytes of the output of the rewards are left out here")]
    assert "hf_" not in err


def test_rewards_do_not_inherit_tokens_from_the_shell(
    apart: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "WANDB_API_KEY", "DATABASE_URL", "JUDGE"):
        monkeypatch.setenv(name, "x")
    text = f"""
        import json, os
        with open({str(tmp_path / "seen")!r}, "w") as file:
            json.dump(sorted(os.environ), file)
        def reward(a, b, **k):
            return float(a in b), a in b
    """
    assert apart(*of_file(textwrap.dedent(text), tmp_path), "--env", "JUDGE", "--env", "ABSENT")[0] == 0
    seen = set(json.loads((tmp_path / "seen").read_text()))
    assert {"PATH", "JUDGE"} <= seen
    assert not seen & {"HF_TOKEN", "WANDB_API_KEY", "DATABASE_URL", "ABSENT"}


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "..", "A", "x" * 40, "with space"])
def test_a_reward_name_the_schema_refuses_is_refused_before_writing(
    name: str, grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RewardFiles, "write", lambda *_: pytest.fail("written"))
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"job": {"rewards": {name: {"file": GOOD}}}}))
    code, out, err = grpo(*STACK, "-f", file)
    assert (code, out) == (2, "")
    assert err.startswith(f"{file}:1:22: {name!r} cannot be the name of a reward\n")
    assert "  fix: a letter, then letters" in err


def test_reward_names_are_checked_with_the_schemas_pattern() -> None:
    schema = yaml.safe_load((ROOT / "schemas/values/job.yaml").read_text("utf-8"))
    assert schema["properties"]["rewards"]["propertyNames"]["pattern"] == f"^{files.NAME.pattern}$"


def test_a_reward_that_hangs_while_loading_is_stopped(apart: Run, tmp_path: Path) -> None:
    code, out, _ = apart(*of_file("import time\ntime.sleep(600)\n", tmp_path), "--timeout", 0.1)
    assert code == 1
    assert "error: the rewards did not end within 0.1 s: loading" in out


def test_a_file_name_in_place_of_its_content_is_refused(grpo: Run) -> None:
    code, out, _ = grpo(*STACK, "--set", "job.rewards.mine.file=polite.py")
    assert code == 1
    assert "the text is only the name of a file; give its content by --set-file" in out


def test_an_invalid_entry_is_shown_with_its_location(grpo: Run) -> None:
    code, out, _ = grpo(*STACK, "--set", "job.rewards.mine.builtin=exact")
    assert code == 1
    assert "error: <--set>:1:1: reward mine: there is no builtin 'exact'" in out


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("def reward(a, b, **k):\n    return 0.5, None\n", "every sample has the same score, 0.5"),
        ("def reward(a, b, **k):\n    return float('6' in b), None\n", "the right and the wrong answer have the same"),
        (GOOD, None),
    ],
)
def test_a_reward_that_cannot_teach_anything_is_a_warning(
    text: str, warned: str | None, grpo: Run, tmp_path: Path
) -> None:
    code, out, _ = grpo(*of_file(text, tmp_path))
    assert code == 0
    assert (warned is not None) == ("warning: " in out)
    assert (warned or "") in out


def test_a_score_out_of_bounds_is_a_warning(grpo: Run, tmp_path: Path) -> None:
    text = "BOUNDS = (0, 1)\ndef reward(a, b, **k):\n    return 7.0 * ('72' in b), None\n"
    code, out, _ = grpo(*of_file(text, tmp_path))
    assert code == 0
    assert "warning: reward mine gives 7 to sample right, and its BOUNDS are 0 and 1\n" in out


def test_a_constant_reward_among_several_is_a_warning(grpo: Run, tmp_path: Path) -> None:
    words = of_file("def reward(a, b, **k):\n    return 0.5, None\n", tmp_path)
    _, out, _ = grpo(*words, "--set", "job.rewards.a.builtin=exact_answer")
    assert "warning: reward mine gives 0.5 to every sample" in out


# -- prompts


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Solve it.", "job.prompts.tags has no {}, so no prompt contains its question"),
        (r"Write \boxed{} of {}", "job.prompts.tags is not a prompt that NeMo RL can fill in: IndexError"),
        (r"Write \boxed{x} of {}", "job.prompts.tags is not a prompt that NeMo RL can fill in: KeyError"),
    ],
)
def test_a_faulty_prompt_is_an_error(prompt: str, said: str, grpo: Run) -> None:
    words = [*STACK[:4], "-f", EXAMPLE, *STACK[4:], "--set-string", f"job.prompts.tags={prompt}"]
    code, _, err = grpo(*words)
    assert code == 2
    assert said in err


# -- samples of a file


def test_samples_are_read_from_a_file(grpo: Run, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    rows = [
        {"prompt": "2 + 2?", "ground_truth": "4", "response": "<answer>4</answer>", "name": "tagged"},
        {"prompt": "2 + 2?", "ground_truth": 4, "response": "4"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    code, out, _ = grpo(*STACK[:4], "-f", EXAMPLE, *STACK[4:], "--sample", file)
    assert code == 0
    assert "  2 + 2?\n" in out
    assert [line.split()[0] for line in out.splitlines() if line.endswith(("yes", "no"))] == ["tagged", "line"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "this file has no samples"),
        ("{", ":1:1: this line is not JSON"),
        ("[]", ":1:1: this line is not a JSON object"),
        ("\0", "fix: give a text file saved as UTF-8"),
        ('{"prompt": "a"}', ":1:1: this sample has no ground_truth and no response"),
    ],
)
def test_a_faulty_sample_file_is_refused(text: str, said: str, grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text(text)
    code, _, err = grpo(*STACK, "--set", "job.rewards.a.builtin=format", "--sample", tmp_path / "answers.jsonl")
    assert code == 2
    assert said in err


def test_values_without_a_run_are_refused(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("job: {name: a}\n")
    code, _, err = grpo("-f", tmp_path / "a.yaml")
    assert code == 2
    assert "the values describe no run of a known framework and version" in err


@pytest.mark.parametrize(
    ("entries", "prompt", "right"),
    [
        ({"a": {"builtin": "exact_answer"}}, "", "<answer>72</answer>"),
        ({"a": {"builtin": "exact_answer"}}, r"inside \boxed{{}}", r"\boxed{72}"),
        ({"a": {"builtin": "exact_answer", "kwargs": {"markers": ["####"]}}}, "", "#### 72"),
        ({"a": {"builtin": "format", "kwargs": {"answer_tag": "final"}}}, "", "<final>72</final>"),
        (
            {"a": {"builtin": "exact_answer", "kwargs": {"think_tag": "reason"}}},
            "Think inside <reason> and </reason>.",
            "</reason>\n<answer>72</answer>",
        ),
        ({"a": {"file": "a.py"}}, "the last line is ####", "#### 72"),
    ],
)
def test_built_in_samples_have_the_format_the_rewards_expect(entries: Any, prompt: str, right: str) -> None:
    found = {each.name: each.response for each in samples.builtin(entries, prompt)}
    assert found[samples.RIGHT].endswith(right)
    assert found[samples.WRONG] == found[samples.RIGHT].replace("72", "71")
    assert found[samples.EMPTY] == ""
    assert "72" in found[samples.BADLY_FORMED]
    assert right not in found[samples.BADLY_FORMED]


OF_VERL = """\
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": len(data_source) + (extra_info or {}).get("more", 0), "acc": ground_truth in solution_str}
"""


def test_a_verl_function_gets_sample_fields_and_falls_back_to_the_dataset(grpo: Run, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{}, {"data_source": "abc"}, {"data_source": "", "extra_info": {"more": 1}}]
    sample = {"prompt": "1 + 1?", "ground_truth": "2", "response": "2"}
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(sample | row) + "\n" for row in rows))
    code, out, _ = grpo(*of_file(OF_VERL, tmp_path), "--sample", answers, "--format", "json")
    scores = [each["score"] for each in json.loads(out)["samples"]]
    assert (code, scores) == (0, [len("gsm8k"), 3, 1])
    words = [word for path in stack_files(recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(path))]
    code, out, _ = grpo(*words, *of_file(OF_VERL, tmp_path)[-2:], "--sample", answers, "--format", "json")
    assert json.loads(out)["samples"][0]["score"] == len("openai/gsm8k")


def test_a_verl_batch_reward_function_is_refused(grpo: Run, tmp_path: Path) -> None:
    code, out, _ = grpo(*of_file("def compute_score(data_sources, solution_strs): pass\n", tmp_path))
    assert code == 1
    assert "reward mine: compute_score takes a batch, and it is called with one solution_str" in out


# -- rows of the run's data

OWN_DATA = """
job:
  config:
    data:
      train: {dataset_name: ResponseDataset, data_path: /data/mine/train.jsonl, input_key: task, output_key: tests}
"""
OF_TESTS = """\
import json
def reward(ground_truth, response, **kwargs):
    tests = json.loads(ground_truth)
    return float(len(tests) > 1 and tests[0] in response), None
"""


def own_data(folder: Path, rows: list[dict[str, Any]]) -> list[str]:
    """Return the words for data of the user's, with its rows in a file of this machine."""
    (folder / "own.yaml").write_text(OWN_DATA, encoding="utf-8")
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ["-f", str(folder / "own.yaml")]


def test_a_failure_on_a_gsm8k_sample_is_no_error_for_the_users_data(grpo: Run, tmp_path: Path) -> None:
    """The expected answer of GSM8K is no list, so a right reward fails on it."""
    words = [*of_file(OF_TESTS, tmp_path), *own_data(tmp_path, [])]
    code, out, _ = grpo(*words)
    assert code == 0
    assert "error: " not in out
    assert 'a question of GSM8K, and the run trains on "/data/mine/train.jsonl"' in out
    assert "reward mine fails on sample right and scores 0.0: TypeError" in out
    assert "the same score" not in out
    assert grpo(*of_file(OF_TESTS, tmp_path))[0] == 1


def test_rewards_are_tried_on_rows_of_the_users_data(grpo: Run, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"task": f"q{at}", "tests": '["a", "b"]'} for at in range(9)]
    words = [*of_file(OF_TESTS, tmp_path), *own_data(tmp_path, rows), "--data", f"train={tmp_path / 'train.jsonl'}"]
    code, out, _ = grpo(*words)
    assert code == 0
    assert f"{tmp_path / 'train.jsonl'}:1 expected " in out
    assert "and 6 other samples" in out
    assert "warning: " not in out
    rows[5]["tests"] = rows[7]["tests"] = "a, b"
    own_data(tmp_path, rows)
    code, out, _ = grpo(*words)
    assert code == 1
    assert f"error: {tmp_path / 'mine.py'}:3: reward mine fails on sample {tmp_path / 'train.jsonl'}:6 expected" in out
    assert out.count("error: ") == 1
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0), as on 5 other samples\n" in out


@pytest.mark.parametrize(
    ("rows", "data", "said"),
    [
        ([{"task": "a"}], "train={}", 'output_key is "tests", and the columns are task'),
        ([{"task": "a", "tests": "b"}], "{}", "--data is "),
        ([{"task": "a", "tests": "b"}], "validation={}", "its rows cannot be tried: data.validation is the data set"),
    ],
)
def test_rows_the_run_would_not_read_are_refused(
    rows: list[dict[str, Any]], data: str, said: str, grpo: Run, tmp_path: Path
) -> None:
    words = [*of_file(OF_TESTS, tmp_path), *own_data(tmp_path, rows)]
    code, _, err = grpo(*words, "--data", data.format(tmp_path / "train.jsonl"))
    assert (code, said in err) == (2, True), err


def test_a_verl_reward_gets_the_fields_of_its_rows(grpo: Run, tmp_path: Path) -> None:
    words = [word for path in stack_files(recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(path))]
    row = {
        "prompt": [{"role": "user", "content": "1 + 1?"}],
        "data_source": "abcd",
        "reward_model": {"ground_truth": "2"},
        "extra_info": {"more": 2},
    }
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    words += ["--set", "job.config.data.train_files=/data/mine/train.jsonl", *of_file(OF_VERL, tmp_path)[-2:]]
    code, out, _ = grpo(*words, "--data", f"train={tmp_path / 'train.jsonl'}", "--format", "json")
    found = json.loads(out)["samples"]
    assert (code, [each["score"] for each in found]) == (0, [6, 6, 6])
    assert [each["correct"] for each in found] == [True, False, False]


def of_verl(folder: Path, rows: list[dict[str, Any]], reward: str) -> list[str]:
    """Return the words for data of the user's that verl trains on, with its rows in a file of this machine."""
    words = [word for path in stack_files(recipe="qwen2.5-32b-gsm8k-verl") for word in ("-f", str(path))]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = ["--set", "job.config.data.train_files=/data/mine/train.jsonl", *of_file(reward, folder)[-2:]]
    return [*words, *data, "--data", f"train={folder / 'train.jsonl'}"]


def of_prompt(text: str, truths: list[Any], source: str = "mine") -> list[dict[str, Any]]:
    """Return rows for verl whose prompts ask for a format."""
    return [
        {
            "prompt": [{"role": "user", "content": f"Question {at}? {text}"}],
            "data_source": source,
            "reward_model": {"ground_truth": truth},
        }
        for at, truth in enumerate(truths)
    ]


AFTER = """\
import re
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    found = re.findall({!r}, solution_str)
    return {{"score": 1.0 if found and found[-1] == ground_truth else -1.0}}
"""
HASHES, ANSWER_IS, BOXED = AFTER.format("#### (.+)"), AFTER.format(r"Answer\s*:\s*(.+)"), AFTER.format(r"boxed\{(.+)\}")
TAGS = AFTER.format("<answer>(.+)</answer>")
ASKED = {
    "#### 5": ("Write it after ####.", HASHES),
    "Answer: 5": ("The last line is of the form Answer: $Answer, where $Answer is the answer.", ANSWER_IS),
    r"\boxed{5}": (r"Write it inside \boxed{}.", BOXED),
    "<answer>5</answer>": ("Write it inside <answer> and </answer>.", TAGS),
}


@pytest.mark.parametrize("answer", ASKED)
def test_the_expected_answer_of_a_row_is_as_its_prompt_asks(answer: str, grpo: Run, tmp_path: Path) -> None:
    prompt, reward = ASKED[answer]
    code, out, _ = grpo(*of_verl(tmp_path, of_prompt(prompt, ["5", "6"]), reward))
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.startswith(str(tmp_path))]
    assert [row[1] for row in rows] == ["expected", "wrong", "empty"] * 2
    assert [row[-3] for row in rows] == ["1", "-1", "-1"] * 2
    assert answer in " ".join(rows[0])
    assert answer.replace("5", "6") in " ".join(rows[1])
    assert "warning: " not in out
    assert "prompt of the first sample: the column prompt of its row\n  Question 0? " in out


@pytest.mark.parametrize("reward", [ANSWER_IS, BOXED, TAGS])
def test_a_reward_that_reads_another_format_than_the_prompt_asks_for_is_a_warning(
    reward: str, grpo: Run, tmp_path: Path
) -> None:
    code, out, _ = grpo(*of_verl(tmp_path, of_prompt("Write it after ####.", ["5", "6", "7"]), reward))
    assert code == 0
    assert "warning: every sample has the same score, -1: from such answers the model learns nothing\n" in out
    assert (
        f"warning: the right and the wrong answer have the same score on 3 of 3 rows, {tmp_path}/train.jsonl:1 fir"
        in out
    )
    assert 'no reward judges the answer "… #### 5", which is written as the prompt of its row asks' in out


def test_a_prompt_of_the_image_asks_for_its_format(grpo: Run, tmp_path: Path) -> None:
    words = of_file(
        GOOD.replace("response, **", "answer, **").replace("truth in response", "'boxed{' + truth in answer"), tmp_path
    )
    words += own_data(tmp_path, [{"task": "a", "tests": "5"}, {"task": "b", "tests": "6"}])
    words += ["--set", "job.config.data.default.prompt_file=examples/prompts/cot.txt"]
    _, out, _ = grpo(*words, "--data", f"train={tmp_path / 'train.jsonl'}")
    assert "warning: " not in out
    assert "prompt of the first sample: examples/prompts/cot.txt, a file of the image, which is not here\n\n" in out


def test_equal_scores_on_some_rows_are_a_warning(grpo: Run, tmp_path: Path) -> None:
    rows = [*of_prompt("Write it after ####.", ["5", "6"]), *of_prompt(r"Write it inside \boxed{}.", ["7", "8"])]
    _, out, _ = grpo(*of_verl(tmp_path, rows, HASHES))
    assert f"the same score on 2 of 4 rows, {tmp_path}/train.jsonl:3 first (-1)" in out
    assert "every sample" not in out


def test_what_asks_for_no_format_is_tried_in_that_of_the_data_source_or_the_reward(grpo: Run, tmp_path: Path) -> None:
    for reward, source in ((HASHES, "openai/gsm8k"), (ANSWER_IS, "math_dapo"), (BOXED, "mine"), (ANSWER_IS, "mine")):
        _, out, _ = grpo(*of_verl(tmp_path, of_prompt("Think.", ["5", "6"], source), reward))
        assert "warning: " not in out, out
    guess = AFTER.format("ANSWER=(.+)")
    _, out, _ = grpo(*of_verl(tmp_path, of_prompt("Think.", ["5", "6"]), guess))
    assert "a guess, because the prompt of its row names no mark that is known here: give answers with --sample" in out


def test_a_solution_with_a_mark_is_no_expected_answer(grpo: Run, tmp_path: Path) -> None:
    rows = of_prompt("Write it after ####.", ["2 and 3 are 5\n#### 5", "6\n#### 6"])
    _, out, _ = grpo(*of_verl(tmp_path, rows, HASHES))
    assert "the same score on 2 of 2 rows" in out
    assert 'no reward judges the answer "… #### 5"' in out


def test_rows_that_expect_no_answer_are_not_judged_by_it(grpo: Run, tmp_path: Path) -> None:
    rows = of_prompt("Write a program.", ['["assert f(1)"]', {"inputs": []}, "a\nb"])
    _, out, _ = grpo(*of_verl(tmp_path, rows, HASHES))
    assert "warning: " not in out
    assert "not judged: whether a right answer is told from a wrong one, for what 3 rows expect is no short text" in out


def test_one_of_several_rewards_that_never_differs_over_rows_is_a_warning(grpo: Run, tmp_path: Path) -> None:
    words = of_verl(tmp_path, of_prompt("Write it after ####.", ["5", "6"]), ANSWER_IS)
    _, out, _ = grpo(*words, "--set", "job.rewards.a.builtin=exact_answer")
    assert "warning: reward mine gives -1 to every sample" in out
    assert "the same score" not in out


BY_SOURCE = """\
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if data_source != "mine":
        raise {}(data_source)
    return float(ground_truth in solution_str)
"""


@pytest.mark.parametrize("error", ["NotImplementedError", "ValueError"])
def test_a_reward_that_wants_a_data_source_is_not_blamed_for_a_made_up_answer(
    error: str, grpo: Run, tmp_path: Path
) -> None:
    words = of_verl(tmp_path, of_prompt("Think.", ["5", "6"]), BY_SOURCE.format(error))
    _, out, _ = grpo(*words[:-2])
    assert error not in out
    assert "Give its rows with --data train=FILE" in out
    code, out, _ = grpo(*words)
    assert (code, "warning: " in out) == (0, False)
