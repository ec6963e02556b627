"""Run a task program: read its task file, and report a failure in one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from files import read_json
from runtime import JobError, Record, say


def run_task(program: Callable[[Record], object]) -> int:
    """Call a task program with the JSON object from the file named by the first argument; return the exit code."""
    task = read_json(sys.argv[1]) if len(sys.argv) > 1 else {}
    try:
        if not task:
            raise JobError(f"usage: python3 {os.path.basename(sys.argv[0])} task.json, a JSON object")
        program(task)
    except JobError as error:
        say(f"failed: {error}")
    except KeyError as error:
        say(f"failed: the task file has no key {error}: the chart and this program have different versions")
    except OSError as error:
        say(f"failed: {error.filename or 'input or output'}: {error.strerror or error}")
    else:
        return 0
    return 1
