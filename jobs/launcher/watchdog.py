"""End a launcher that hangs in a call to its volume; such a call returns no error, so the run would keep its GPUs."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from owner import BEAT_SECONDS, STALL_SECONDS
from runtime import STOP_SIGNALS, Progress, now, say


class Watchdog:
    """Watch the main thread from another one: report waits for the volume, and end the program after `limit`."""

    def __init__(self, directory: Path, limit: float) -> None:
        self.volume, self.limit, self.told = f"the volume of {directory}", limit, False
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Check several times per heartbeat; the program ends without waiting for this thread."""
        while True:
            looked, seen = now(), Progress.at
            threading.Event().wait(BEAT_SECONDS / 5)
            if (took := now() - looked) > STALL_SECONDS:
                # The whole process was paused, perhaps in a call to the volume.
                if Progress.at == seen:
                    Progress.at += took
                continue
            silent = now() - Progress.at
            if (silent > STALL_SECONDS) != self.told:
                self.told = not self.told
                waits = f"waiting for {self.volume} for {silent:.0f} s; giving up after {self.limit:.0f} s"
                say(f"warning: {waits}" if self.told else "the volume answers again")
            if self.told and (stops := STOP_SIGNALS & signal.sigpending()):
                end(f"stopped by {signal.Signals(min(stops)).name}", 128 + min(stops))
            if silent > self.limit:
                advice = "check its server and the network, then raise job.attempt"
                end(f"{self.volume} did not answer for {self.limit:.0f} s (job.takeoverSeconds): {advice}", 1)


def end(text: str, code: int) -> None:
    """End the program even though a call hangs; another thread may first have to copy the line to the log."""
    say(text)
    threading.Event().wait(min(1, BEAT_SECONDS))
    os._exit(code)
