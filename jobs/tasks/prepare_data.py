"""Convert data sets in GSM8K's format to the trainers' format (usage: python3 prepare_data.py task.json).

task.json: "directory", "format" (jsonl for NeMo RL, parquet for verl) and "datasets", a map from name to
{"repository": ID on the Hub or a directory, "subset", "question" and "answer": columns}. Of the splits train,
validation and test, the program writes those that the source has to <directory>/<name>/, and prepared.json, which
lets a second run reuse them. A GSM8K answer is a worked solution that ends with "#### 72". The program writes only
the number: the frameworks compare a response's number with the complete ground truth, so with the full solution
every reward would be 0.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from files import read_json, sync, write_atomically, write_json
from hub_cache import fetched
from reward_numbers import final_answer
from runtime import JobError, Record, say
from task import run_task

SPLITS = ("train", "validation", "test")
RECORD, VERSION = "prepared.json", 1
# verl selects its reward function by this name: it compares the last "#### number" of a response as text.
DATA_SOURCE = "openai/gsm8k"
INSTRUCTION = (
    "Think step by step. The last line of your reply must be #### followed by a space and the final answer, "
    "a number without unit or currency sign."
)
Row = dict[str, str]


def arrow(part: str = "") -> Any:
    try:
        import pyarrow
        import pyarrow.parquet

        return pyarrow.parquet if part else pyarrow
    except ImportError:
        raise JobError("this image has no pyarrow, which reads and writes Parquet: use the training image") from None


def read_lines(path: str) -> Iterator[Record]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise JobError(f"{path}, line {number}: expected a JSON object on each line")
                yield row


def read_parquet(path: str) -> list[Record]:
    try:
        rows: list[Record] = arrow("parquet").ParquetFile(path).read().to_pylist()
    except arrow().ArrowInvalid as error:
        raise JobError(f"{path} is not a Parquet file ({str(error)[:100]}): fetch it again") from None
    return rows


def split_files(directory: str, subset: str) -> dict[str, list[str]]:
    """Return each split's files, from the subset's directory or, without subsets, from data/ or the top folder."""
    places = [subset, f"data/{subset}"] if subset else []
    if subset in ("", "main", "default"):
        places += ["data", "."]
    for place in places:
        folder = os.path.normpath(os.path.join(directory, place))
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for ending in (".parquet", ".jsonl"):
            found = {
                split: [
                    os.path.join(folder, name)
                    for name in names
                    if re.fullmatch(split + "(-.*)?" + re.escape(ending), name)
                ]
                for split in SPLITS
            }
            if any(found.values()):
                return {split: files for split, files in found.items() if files}
    raise JobError(
        f"{directory} has no train, validation or test file (.parquet or .jsonl) in {' or '.join(places)}: check "
        "repository and subset under job.prepareData"
    )


def read_rows(files: list[str], entry: Record) -> list[Row]:
    """Return every row's question, solution and answer; reject a row that lacks one of them."""
    columns, rows, bad = (entry["question"], entry["answer"]), [], []
    for path in files:
        for row in read_parquet(path) if path.endswith(".parquet") else read_lines(path):
            if absent := [name for name in columns if name not in row]:
                raise JobError(
                    f"{path} has no column {absent[0]}, it has {', '.join(sorted(row))}: set job.prepareData"
                )
            question, solution = (str(row[name] if row[name] is not None else "").strip() for name in columns)
            number = final_answer(solution)
            rows.append({"question": question, "solution": solution, "answer": number})
            if not question or not number:
                bad.append(f"row {len(rows) - 1}: {(solution[-60:] if question else 'no question')!r}")
    if bad:
        raise JobError(
            f"{len(bad)} of {len(rows)} rows of {files[0]} have no question, or no number after #### at the end of "
            f"{entry['answer']} ({'; '.join(bad[:3])}): their reward would always be 0; correct or remove these rows"
        )
    if not rows:
        raise JobError(f"{files[0]} has no rows")
    return rows


def write_lines(path: str, rows: list[Row]) -> None:
    # NeMo RL v0.4.0 looks up each row's task in a table that has only math; later versions set or ignore the key.
    lines = [{"question": row["question"], "answer": row["answer"], "task_name": "math"} for row in rows]
    write_atomically(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "part")


def write_parquet(path: str, rows: list[Row], split: str, instruction: str) -> None:
    """Write the columns that verl reads; extra_info is for custom reward functions."""
    table = arrow().Table.from_pylist(
        [
            {
                "data_source": DATA_SOURCE,
                "prompt": [{"role": "user", "content": f"{row['question']}\n\n{instruction}"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": row["answer"]},
                "extra_info": {"split": split, "index": i, "question": row["question"], "answer": row["solution"]},
            }
            for i, row in enumerate(rows)
        ]
    )
    draft = f"{path}.part"
    arrow("parquet").write_table(table, draft)
    sync(draft)
    os.replace(draft, path)


def digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ""


def find_source(entry: Record) -> tuple[str, Record]:
    """Return the data's directory, and what identifies its version."""
    repository = entry["repository"]
    if not os.path.isabs(repository):
        directory, commit = fetched("dataset", repository)
        return directory, {"repository": repository, "revision": commit}
    if not os.path.isdir(repository):
        raise JobError(f"{repository} does not exist: set a directory on a mounted volume, or a data set of the Hub")
    files = [path for paths in split_files(repository, entry.get("subset") or "").values() for path in paths]
    return repository, {"repository": repository, "files": [[path, digest(path)] for path in files]}


def intact(folder: str, record: Record, request: Record) -> bool:
    """Return whether the directory has the requested data, unchanged since it was written."""
    parts = record.get("splits") or {}
    same = (digest(os.path.join(folder, part["file"])) == part["sha256"] for part in parts.values())
    return record.get("request") == request and bool(parts) and all(same)


def write_split(folder: str, split: str, rows: list[Row], ending: str, instruction: str) -> Record:
    file = os.path.join(folder, f"{split}.{ending}")
    if ending == "parquet":
        write_parquet(file, rows, split, instruction)
    else:
        write_lines(file, rows)
    say(f"{len(rows)} rows in {file}; the first answer is {rows[0]['answer']}")
    return {"file": os.path.basename(file), "rows": len(rows), "sha256": digest(file)}


def refuse_other(name: str, folder: str, record: Record, request: Record) -> None:
    """Refuse to replace intact data from another source, because a resumed run would continue with different rows."""
    before = record.get("request") or {}
    changed = [key for key in request if key != "version" and before.get(key) != request[key]]
    if changed and intact(folder, record, before):
        raise JobError(
            f"{folder} has data prepared with another {' and '.join(changed)} ({before.get('origin')}), which a run "
            "may still use: choose another name under job.prepareData, or delete that folder first"
        )


def set_changed_aside(folder: str, record: Record) -> None:
    """Rename the files that have changed since they were prepared, because somebody may have edited them."""
    for part in (record.get("splits") or {}).values():
        path = os.path.join(folder, part["file"])
        if (found := digest(path)) not in ("", part["sha256"]):
            aside = f"{path}.changed-{found[:8]}"
            os.rename(path, aside)
            say(f"warning: {path} has changed since it was prepared: it is {aside} now, and is written again")


def prepare(name: str, entry: Record, folder: str, ending: str) -> None:
    source, origin = find_source(entry)
    instruction = entry.get("instruction") or INSTRUCTION
    request: Record = {"version": VERSION, "format": ending, "origin": origin, "instruction": instruction}
    request |= {key: entry.get(key) or "" for key in ("subset", "question", "answer")}
    path = os.path.join(folder, RECORD)
    record = read_json(path)
    if intact(folder, record, request):
        counts = ", ".join(f"{part['rows']} rows {split}" for split, part in record["splits"].items())
        say(f"{name}: {folder} is prepared already ({counts})")
        return
    refuse_other(name, folder, record, request)
    parts = {split: read_rows(files, entry) for split, files in split_files(source, request["subset"]).items()}
    # A record without splits is of a task that has not ended, and may have written any of them.
    ours = {part["file"] for part in (record.get("splits") or {}).values()}
    names = [] if record and not ours else [f"{split}.{ending}" for split in parts]
    for name in names:
        if name not in ours and os.path.lexists(os.path.join(folder, name)):
            raise JobError(f"{folder}/{name} exists and was not written by this task: move it away")
    set_changed_aside(folder, record)
    # From here on the directory belongs to this task; it is complete when the record names its files.
    write_json(path, {"request": request})
    splits = {split: write_split(folder, split, rows, ending, instruction) for split, rows in parts.items()}
    write_json(path, {"request": request, "splits": splits})


def main(task: Record) -> None:
    ending = task["format"]
    if ending not in ("jsonl", "parquet"):
        raise JobError(f"the format is {ending!r}, expected jsonl or parquet")
    for name, entry in task["datasets"].items():
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise JobError(f"job.prepareData.{name}: expected a name of letters, digits, dots and dashes")
        prepare(name, entry, os.path.join(task["directory"], name), ending)
    say(f"prepared: {', '.join(task['datasets'])}")


if __name__ == "__main__":
    sys.exit(run_task(main))
