"""Kill a trainer whose launcher is gone, or is held up so long that another attempt may take over the run.

This program leads the trainer's process group. The heartbeat sends it deadlines on the monotonic clock; when the
last deadline has passed, or when the pipe is closed, it kills the group. It parses no text and uses no volume, so
neither a trainer's output nor hanging storage can hold it up.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
import threading
import time

MOMENT = struct.Struct("d")
SIZE = 1 << 16


class Fence:
    """The launcher's end of the pipe."""

    def __init__(self) -> None:
        reader, self.pipe = os.pipe()
        # A fence that is stopped must not hold up the heartbeat.
        os.set_blocking(self.pipe, False)
        self.lock = threading.Lock()
        self.group = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", __file__],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)],
            setpgroup=0,
            # Who stops a job may signal each of its processes.
            setsigmask=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
        )
        os.close(reader)

    def move(self, moment: float) -> None:
        """Let the trainer's group live until this moment; raise BrokenPipeError if it has been killed."""
        with self.lock, contextlib.suppress(BlockingIOError):
            if self.pipe >= 0:
                os.write(self.pipe, MOMENT.pack(moment))

    def remove(self) -> None:
        """End the fence program, but leave the process group alone."""
        os.kill(self.group, signal.SIGKILL)
        os.waitpid(self.group, 0)
        with self.lock:
            os.close(self.pipe)
            self.pipe = -1


def main() -> None:
    """Read deadlines from standard input, then kill the process group."""
    moments = os.read(0, SIZE)
    while moments:
        (last,) = MOMENT.unpack(moments[-MOMENT.size :])
        arrived, _, _ = select.select([0], [], [], max(0.0, last - time.monotonic()))
        moments = os.read(0, SIZE) if arrived else b""
    # The launcher learns from the closed pipe, before the group ends, why it ends.
    os.close(0)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
