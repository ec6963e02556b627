"""A disk that all machines share, and that can fail: ext4 in a file, mounted in the same place everywhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.realnode.machine import Machine

SIZE = 64 << 20
Runner = Callable[..., str]


class Disk:
    """A file system that turns read-only at its first error, as a server's own disks do."""

    def __init__(self, image: Path, place: Path, machines: Iterable[Machine]) -> None:
        self.place = place
        # What runs a command here, and on each machine; `mounted` has those of them that have it now.
        self.runners: list[Runner] = [run, *(machine.run for machine in machines)]
        self.mounted: list[Runner] = []
        with image.open("wb") as stream:
            stream.truncate(SIZE)
        run("mkfs.ext4", "-q", "-m", "0", image)
        self.device = Path(run("losetup", "--find", "--show", image).strip())

    def mount(self) -> None:
        """Mount it here and on all machines; what pods of later mount there is the disk."""
        self.place.mkdir(parents=True, exist_ok=True)
        for runner in self.runners:
            runner("mount", "-o", "errors=remount-ro", self.device, self.place)
            self.mounted.append(runner)

    def fail(self) -> None:
        """Let the kernel find an error in the file system; what it has not written yet is lost too."""
        Path(f"/sys/fs/ext4/{self.device.name}/trigger_fs_error").write_text("1")

    def flush(self) -> None:
        """Write what is still in memory, as the kernel does after some seconds."""
        run("sync", "--file-system", self.place)

    def repair(self) -> None:
        """Check the file system while nobody uses it, and mount it again.

        Raises AssertionError when a pod still has it.
        """
        self.unmount()
        # It has mended something: 1.
        run("e2fsck", "-p", self.device, ok=(0, 1))
        self.mount()

    def unmount(self, *options: str) -> None:
        """Take it away from all machines that have it, and from here last."""
        while self.mounted:
            self.mounted[-1]("umount", *options, self.place)
            self.mounted.pop()

    def remove(self) -> None:
        """Give the device back, as far as it is still in use when the last mount goes; also after a failed mount."""
        try:
            self.unmount("--lazy")
        finally:
            run("losetup", "--detach", self.device)


def run(*words: str | Path, ok: tuple[int, ...] = (0,)) -> str:
    """Run a program and return its output; raise AssertionError with what it said."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode in ok, f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}"
    return done.stdout
