"""Which lines of a trainer that has shown no step are new, and which it repeats while it waits."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.programs import flat_folder

REPEATED = [
    ["Waiting for the placement group…"],
    [f"2026-11-25 1{hour}:04:27,{hour}13 INFO waiting" for hour in range(5)],
    [f"INFO 11-25 18:0{minute}:59 [core_client.py:600] Waiting for 1 local engine" for minute in range(5)],
    [f"(autoscaler +{hour}h2m{hour}s) Error: No available node types can fulfill" for hour in range(1, 5)],
    [f"Retrying in {2**count}s [Retry {count}/5]." for count in range(1, 5)],
    [f"still waiting, attempt #{count}, {count * 30.5} seconds" for count in range(1, 5)],
    [f"(Worker pid={count}, ip=10.0.0.{count}) no store [repeated {count}x across cluster]" for count in range(1, 5)],
    [f"429. (Request ID: Root=1-6925903{count}-0f3c8a1b2c3d4e5f6a7b8c9d)" for count in range(5)],
    [f"429. (Request ID: 4171a2b{count}-0000-1111-2222-33334444555{count})" for count in range(5)],
    [f"<HTTPSConnection object at 0x7f{count}3a0>: Failed to resolve 'huggingface.co'" for count in range(5)],
]
NEW = [
    ["Loading shards:  20%|##   | 1/5 [00:10<00:40]", "Loading shards:  40%|####  | 2/5 [00:20<00:30]"],
    ["iteration 7: loss 0.31", "iteration 8: loss 0.30"],
    ["12345678901 bytes", "12345678902 bytes"],
    ["model-00001-of-00030.safetensors", "model-00002-of-00030.safetensors"],
]


@pytest.mark.parametrize("lines", REPEATED, ids=lambda lines: lines[0][:20])
def test_a_line_that_repeats_apart_from_times_and_ids_is_news_once(jobs: Any, lines: list[str]) -> None:
    news = jobs("news").News()
    assert news.feed(lines[0] + "\n")
    assert not any(news.feed(line + "\n") for line in [*lines, *lines])


@pytest.mark.parametrize("lines", NEW, ids=lambda lines: lines[0][:20])
def test_a_line_with_a_different_number_is_news(jobs: Any, lines: list[str]) -> None:
    news = jobs("news").News()
    assert all(news.feed(line + "\n") for line in lines)


def test_a_line_is_judged_only_when_it_is_complete(jobs: Any) -> None:
    news = jobs("news").News()
    assert not news.feed("Load")
    assert news.feed("ing\n")
    # A row of dots is none.
    assert not any(news.feed(".") for _ in range(100))


def test_weeks_of_output_do_not_use_up_memory(jobs: Any) -> None:
    module = jobs("news")
    news = module.News()
    for count in range(3 * module.KEPT):
        assert news.feed(f"iteration {count}\n")
    assert len(news.seen) <= module.KEPT


def test_lines_of_any_length_do_not_use_up_memory(jobs: Any) -> None:
    module = jobs("news")
    news = module.News()
    for count in range(20):
        assert news.feed(f"{count} {'7' * 50_000} waiting\n")
    assert max(map(len, news.seen)) <= module.LONGEST


# Reads lines of the worst characters for the pattern of what changes, with a limit of processor time.
WORST = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
sys.path.insert(0, sys.argv[1])
from news import News
for pump in ("7", "1.", "1s", "1s ", "12 ", "a-", "0", "try ", "ip=1.", "pid=", "12:", "f", " ", "-", "1m2"):
    for text in (pump * (100_000 // len(pump)), "1" + pump * (100_000 // len(pump)) + "!"):
        News().feed(text + "\\n")
"""


def test_no_line_blocks_the_launcher() -> None:
    """A line of 16,000 digits took 53 s, in which no heartbeat was written."""
    done = subprocess.run([sys.executable, "-c", WORST, str(flat_folder())], check=False)
    assert done.returncode == 0, "more than 20 s of processor time"
