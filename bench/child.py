"""Run one program and print its seconds, its peak memory in KiB and its exit code.

    python -I -S bench/child.py INPUT PROGRAM [ARGUMENT ...]

INPUT is what the program reads from stdin; what it writes to stdout goes nowhere. Linux counts the memory of the
process that starts a program into the program's peak, so this one imports next to nothing: it has about 8 MiB, which
is less than what is measured with it.
"""

import os
import sys
import time


def main() -> int:
    """Run the program."""
    files = [
        (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    start = time.perf_counter()
    child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=files)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    print(seconds, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
    return 0


if __name__ == "__main__":
    sys.exit(main())
