"""A text that is nested too deeply is one that cannot be read, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkpoints
import files
import nemo_rl_evaluation
import owner
import prepare_data
import samples
import verl_log
import workers
from runtime import JobError

DEPTH = 100_000


@pytest.mark.parametrize("text", ["[" * DEPTH + "]" * DEPTH, '{"a":' * DEPTH + "1" + "}" * DEPTH])
def test_deeply_nested_json_is_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(text)
    assert files.read_json(str(path)) == {}
    assert checkpoints.read_json(path) == {}
    assert verl_log.record(text) is None
    assert workers.latest(text.encode() + b"\n") == {}
    assert nemo_rl_evaluation.parse_config(text) is None
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode())
    with pytest.raises(ValueError, match="no header"):
        checkpoints.header(path)
    with pytest.raises(ValueError, match="not a sample"):
        samples.sample(text, 0)
    path.write_text(text)
    with pytest.raises(JobError, match="line 1: expected a JSON object"):
        list(prepare_data.read_lines(str(path)))
    assert owner.read_record(path)["state"] == "unreadable"
