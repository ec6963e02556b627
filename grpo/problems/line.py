"""One piece of evidence about a run, as a line: from a log, or from what the cluster reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Where a line is from. A log is what a program has printed; the others are said by the cluster.
LOG: Final = "log"
POD: Final = "pod"
WAIT: Final = "wait"
EVENT: Final = "event"
NODE: Final = "node"
JOB: Final = "job"
OPERATOR: Final = "operator"

# Roles of pods. A head with GPUs takes a whole node, as a worker does: it has the sizes of one.
HEAD: Final = "head"
GPU_HEAD: Final = "head with GPUs"

# An error of Python with its name first, which ends a traceback.
PYTHON_ERROR: Final = re.compile(
    r"^(?-i:(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure|"
    r"NotFound)(?:\([\w.]+\))?|Exception)(?::|$))"
)


@dataclass(frozen=True)
class Frame:
    """A frame in a Python traceback."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Line:
    """A line's text, its `source` (an object or a log), and its kind.

    `order` is the line's number in its log, `time` is when an object reported it; `process` is the process whose output
    Ray repeats. `role` is the pod's role. `frames` are the frames of the traceback that ends with this line, `asserted`
    is the source line of the last frame if an assertion without a message failed: it is shown, but no cause is searched
    in it. `waits` says that the line is about a pod that is waiting now.
    """

    text: str
    source: str
    kind: str = LOG
    order: int = 0
    time: str = ""
    process: str = ""
    role: str = ""
    frames: tuple[Frame, ...] = ()
    asserted: str = ""
    waits: bool = False

    @property
    def place(self) -> str:
        """Return where the line is found."""
        return f"{self.source}:{self.order}" if self.order else self.source
