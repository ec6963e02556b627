"""One thing that is known about a run, as a line: of a log, or of what the cluster says."""

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
    """A place in a traceback of Python."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Line:
    """What is said, by whom (`source`: an object, or a log), and of which kind.

    `order` is the number of a line in its log, `time` when an object says it; `process` is the one whose output Ray
    repeats. `role` is that of a pod. `frames` are the places of the traceback that ends with this line, `asserted` is
    the source of the last one where an assertion without words failed: it is shown, and no cause is sought in it.
    `waits` says that it is about a pod that waits now.
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
        """Return where the line stands."""
        return f"{self.source}:{self.order}" if self.order else self.source
