"""A folder in which the commands of pages can run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jobs import checkpoint_files
from tests.live import bundles
from tests.runlog import logs as training_logs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a run directory, as a volume that is mounted here has it; commands run in it."""
    run = tmp_path / "runs/gemma3-gsm8k"
    checkpoint_files.nemo_rl(run, 10, value=0.5)
    logs = run / "logs/exp_001"
    logs.mkdir(parents=True)
    row = {"content": [["question", "answer", "said"]], "rewards": [0.5], "idx": 0}
    for step in (1, 10):
        (logs / f"train_data_step{step}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for name in ("driver.log", "before.log", "after.log"):
        (tmp_path / name).write_text(training_logs.nemo_rl(), encoding="utf-8")
    bundles.write(tmp_path / "evidence.tar.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path
