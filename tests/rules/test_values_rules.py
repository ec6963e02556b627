"""Each rule over values finds exactly the marked lines of its bad file, and nothing in its good one.

A fixture is a values file that is given last; its first line says after which ones:
`# lint: PROFILE [RECIPE [FRAMEWORK]]`, the names of files below values/. A fixture without a recipe is one itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.lint import values_editor
from grpo.lint.linter import lint
from grpo.rules import registry
from postrender.finding import SEVERITIES, Finding, NewName
from tests.conftest import ROOT, SITE, thin

HERE = Path(__file__).parent
RULES = registry.rules("values")
BY_ID = {rule.id: rule for rule in RULES}
FILES = sorted(path.relative_to(HERE) for name in BY_ID for path in HERE.glob(f"{name}/*.yaml"))
BAD = [file for file in FILES if file.name.startswith("bad")]
GOOD = [file for file in FILES if file.name.startswith("good")]
MARK = re.compile(r"# <- finding(?:: (.*))?$")
# Rules of which every case has one certain value.
CERTAIN = ("nemo-rl/lora-triton", "nemo-rl/async-correction")
HEAD = re.compile(r"# lint: (\S+)(?: (\S+))?(?: (\S+))?$")


def files(file: Path) -> list[Path]:
    """Return a fixture's stack: the files that it names, the site file, itself."""
    first = (HERE / file).read_text(encoding="utf-8").splitlines()[0]
    head = HEAD.match(first)
    assert head, f"{file}: expected `# lint: PROFILE [RECIPE [FRAMEWORK]]`, found {first!r}"
    profile, recipe, framework = head.groups()
    before = [ROOT / f"values/accelerators/{profile}.yaml"]
    before += [ROOT / f"values/recipes/{recipe}.yaml"] if recipe else []
    before += [ROOT / f"values/frameworks/{framework}.yaml"] if framework else []
    return [*before, SITE, HERE / file]


def findings(file: Path) -> list[Finding]:
    """Judge a fixture; only findings of its own rule count."""
    found = lint([*map(str, files(file))])
    return [each for each in found if each.rule == file.parent.as_posix()]


# The first bad file shows that a rule speaks; the others are its further cases.
CASES = [pytest.param(file, marks=[] if file.name == "bad.yaml" else pytest.mark.full) for file in BAD]


@pytest.mark.parametrize("file", CASES, ids=str)
def test_a_rule_finds_the_marked_lines_and_its_values_mend_them(file: Path, tmp_path: Path) -> None:
    lines = enumerate((HERE / file).read_text(encoding="utf-8").splitlines(), 1)
    marked = [(number, match[1] or "") for number, line in lines if (match := MARK.search(line))]
    found = findings(file)
    assert [(each.at.file, each.at.line) for each in found] == [(str(HERE / file), number) for number, _ in marked]
    assert marked
    for each, (number, words) in zip(found, marked, strict=True):
        assert words in each.what, f"{file}:{number}"
        assert each.at.col > 0
        assert each.severity == BY_ID[each.rule].severity
        assert "crashed" not in each.what
        assert each.proposed or each.rule not in CERTAIN
    if any(each.proposed for each in found):
        assert_mended(file, found, tmp_path)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("job/reward-source/bad-neither.yaml", "give --set-file job.rewards.polite.file=FILE"),
        ("nemo-rl/prompt-file/bad-near.yaml", "did you mean examples/prompts/cot.txt?"),
        ("nemo-rl/generation-gpus-on-one-node/bad-sizes.yaml", "give ray.workers.replicas 2 or more"),
        ("nemo-rl/nothing-to-learn/bad-clipping.yaml", "write 1.0, or null to switch clipping off"),
        ("nemo-rl/wrong-type/bad-chat-template.yaml", "remove the key, or write default"),
        ("nemo-rl/saved-without-validation/bad-2.yaml", "the save_period, or checkpointing.metric_name to null"),
        ("nemo-rl/prompt-longer-than-model/bad-answer.yaml", "vLLM cuts an answer where its context is full"),
        ("nemo-rl/unknown-key/bad-name-of-verl.yaml", "did you mean grpo.dynamic_sampling_max_gen_batches?"),
        ("nemo-rl/unknown-key/bad-name-of-trl.yaml", "did you mean policy.optimizer.kwargs.lr or policy.megatron_cfg."),
        ("nemo-rl/unknown-key/bad-beside.yaml", "did you mean policy.optimizer.kwargs.lr?"),
        ("nemo-rl/dataset/bad-of-hub.yaml", "did you mean gsm8k?"),
        ("nemo-rl/dataset/bad-other-of-hub.yaml", "write dataset_name: ResponseDataset and data_path: acme/mathy"),
        ("nemo-rl/processor/bad-own.yaml", "one of default, helpsteer3_data_processor"),
        ("verl/unknown-key/bad-name-of-nemo-rl.yaml", "did you mean data.train_batch_size?"),
        ("memory/does-not-fit/bad.yaml", "lower the micro batch or the lengths"),
        ("memory/does-not-fit/bad-length.yaml", "sequences of up to 8320 tokens fit, prompt included; grpo plan"),
        ("nemo-rl/wrong-type/bad-text-for-list.yaml", 'write a list: ["</answer>"]'),
        ("verl/unknown-key/bad-overlong.yaml", "it is reward.reward_kwargs.overlong_buffer_cfg"),
        ("job/derived-key-differs/bad-project.yaml", "it is derived from tracking.wandb.project: change that"),
        ("job/derived-key-differs/bad-run-name.yaml", "tracking.wandb.name (job.name where it is empty): change that"),
        (
            "verl/no-room-for-an-answer/bad-model.yaml",
            "lower data.max_prompt_length and data.max_response_length: the model",
        ),
        ("verl/tokens-below-sequence/bad-one.yaml", "raise it to 1536 or more"),
        ("verl/policy-loss/bad-case.yaml", "did you mean gspo?"),
        ("verl/advantage-estimator/bad-near.yaml", "did you mean grpo_passk?"),
        (
            "verl/legacy-reward/bad-manager.yaml",
            "write reward_model.reward_manager as reward.reward_manager.name",
        ),
        ("verl/unknown-key/bad-section.yaml", "did you mean actor_rollout_ref.actor.policy_loss?"),
        ("verl/answers-cut-by-engine/bad-model.yaml", "lower data.max_response_length to 31744 or less"),
        ("verl/log-prob-micro-batch-once/bad-4.yaml", "remove actor_rollout_ref.ref.log_prob_use_dynamic_bsz, which"),
        ("verl/relative-path/bad-reward.yaml", "give the function as job.rewards (--set-file)"),
        ("verl/unknown-key/bad-overlong-before.yaml", "it is reward_model.reward_kwargs.overlong_buffer_cfg"),
    ],
)
def test_a_finding_says_what_to_write_in_its_case(file: str, words: str) -> None:
    (found,) = findings(Path(file))
    assert words in f"{found.why} {found.fix}"


def assert_mended(file: Path, found: list[Finding], folder: Path) -> None:
    """Assert that what is proposed mends what it is for, written as `--fix` does."""
    text, mended = (HERE / file).read_text(encoding="utf-8"), folder / "mended.yaml"
    for path, value in {path: value for each in found for path, value in each.edits.items()}.items():
        edited = values_editor.with_name if isinstance(value, NewName) else values_editor.with_value
        text = edited(text, mended.name, path, value.name if isinstance(value, NewName) else value)
    mended.write_text(text, encoding="utf-8")
    left = {each.what for each in lint([*map(str, files(file)[:-1]), str(mended)])}
    assert not left & {each.what for each in found if each.proposed}


@pytest.mark.parametrize("file", thin(GOOD, 12), ids=str)
def test_a_rule_finds_nothing_in_what_is_good(file: Path) -> None:
    assert [f"{each.at}: {each.what}" for each in findings(file)] == []


def test_a_rule_has_fixtures_and_says_what_why_and_what_to_do() -> None:
    for rule in RULES:
        folder = HERE / rule.id
        assert folder.is_dir(), f"{rule.id} has no fixtures"
        assert {"good.yaml", "bad.yaml"} <= {path.name for path in folder.iterdir()}, rule.id
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
        assert rule.severity in SEVERITIES, rule.id
        assert re.search(r"\S+ at (v?\d+\.\d+\.\d+|[0-9a-f]{8})$", rule.source), rule.id
