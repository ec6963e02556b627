"""How a process ended, if nothing else gives the reason."""

from __future__ import annotations

from typing import Final

from grpo.problems import line
from grpo.problems.line import JOB
from grpo.problems.problem import CONFIGURATION, CONSEQUENCE, EXCEPTION, HELPS, SAME, SYMPTOM, UNKNOWN, failure
from grpo.problems.services.logs import OUTSIDE
from grpo.problems.sign import printed, says

SEGFAULT = failure(
    "segfault",
    "a process crashed in compiled code",
    UNKNOWN,
    "the lines below it have the stack of the thread; try another version of the library at its top. On one node only, "
    "suspect the machine",
    HELPS,
    printed(
        "segmentation fault",
        "sigsegv",
        "fatal python error",
        "core dumped",
        "double free or corruption",
        "free(): invalid pointer",
        "corrupted size vs. prev_size",
        "malloc(): ",
        "illegal instruction",
        "sigill",
        "sigfpe",
        "floating point exception",
        "access violation",
        unless="sigsegv handler",
    )
    + printed("exit code 139", "exitcode: -11", "exit code: -11", "signal 11", "exits with return code = -11"),
    place=EXCEPTION,
)

KERNEL = failure(
    "cuda-error",
    "a CUDA kernel failed",
    UNKNOWN,
    "set CUDA_LAUNCH_BLOCKING=1 for the true place; an index out of range (a token outside of the vocabulary) "
    "and a bug in a "
    "kernel look like this; on one GPU only, suspect the GPU",
    HELPS,
    printed(
        "illegal memory access",
        "device-side assert triggered",
        "misaligned address",
        "unspecified launch failure",
        "cublas_status_execution_failed",
        "cublas_status_internal_error",
        "cublas_status_not_initialized",
        "cudnn_status_execution_failed",
        "cudnn_status_internal_error",
        "srcindex < srcselectdimsize",
        "acceleratorerror",
        "an illegal instruction was encountered",
        "invalid argument (cuda",
        "cuda error: invalid argument",
        "the launch timed out and was terminated",
    )
    + printed("cuda error", "cuda failure", pattern=r"cuda (?:driver )?error: .*|cuda failure .*")
    + says("xid", pattern=r"\bXid(?: \(PCI:[^)]*\))?(?: errors?)?[ :=#]+(?:13|31|43|45|68|69)\b"),
    place=EXCEPTION,
    earlier="nemo-rl/tokenizer-of-another-model",
)

# Where Ray guesses.
_NO_KILL: Final = r"potential root causes|\(1\) |oom killer due to high|sigkill_handler"

KILLED = failure(
    "killed",
    "a process was killed from outside (SIGKILL), and nobody says why",
    UNKNOWN,
    "look at the pod's last state and the node's events; the usual reason is the kernel's out-of-memory killer",
    HELPS,
    printed(
        "exit code 137",
        "exitcode: -9",
        "exitcode  : -9",
        "exit code: -9",
        "signal 9",
        "signal: killed",
        "died with <signals.sigkill",
        unless=_NO_KILL,
    )
    # DeepSpeed's launcher.
    + printed("exits with return code = -9")
    # A name alone is a text about signals.
    + printed(
        "sigkill",
        pattern=r"(?:\b(?:signal|by|with|via|got|received)[ :=]+|\d \(?)SIGKILL\b|\bSIGKILL[ :]*\(?9\b",
        unless=_NO_KILL,
    )
    + printed("killed", pattern=r"^(?:\S+: line \d+:\s+\d+ )?Killed\b.*")
    + says("exit code 137", pattern=r"exit code 137 \((?!OOMKilled).*"),
    place=SYMPTOM,
    value="accelerator.worker.memory",
    on_head="ray.head.memory",
    earlier=(
        "memory/host job/head-below-weights job/head-below-conversion ray/small-head pods/shared-memory-above-limit "
        "pods/memory-volume-without-limit"
    ),
)

STOPPED = failure(
    "stopped",
    "the run was stopped from outside",
    UNKNOWN,
    "find what stopped it (a deletion, a raised job.attempt, a drained node, its deadline), then raise job.attempt to "
    "resume",
    HELPS,
    printed(
        "grpo: stopped by sig",
        "sigterm: waiting until the trainer has ended",
        "exit code 143",
        "received signal 15",
        "received sigterm",
        "signal 15",
        "received sigint",
        "sigterm received",
        "sighup death signal",
        "sigterm death signal",
        "exits with return code = -15",
    )
    # Of Slurm: a time limit, a preemption, scancel.
    + printed("cancelled at", pattern=r"\*\*\* (?:JOB|STEP) \S+ ON .{1,200} CANCELLED AT \S+ (?:DUE TO|\*\*\*)")
    + printed("signalexception: process", pattern=r"got signal: (?:1|2|15)\b")
    + says("stopped", "job was stopped", kinds=(JOB,), pattern=r"\bSTOPPED\b.*|job was stopped.*"),
    place=SYMPTOM,
    earlier="ray/recreated-by-label ray/pods-end",
)

ABORTED = failure(
    "aborted",
    "a process aborted itself",
    UNKNOWN,
    "read the last lines before it: they name a failed check in C++, or a watchdog",
    SAME,
    printed(
        "sigabrt",
        "exit code 134",
        "exitcode: -6",
        "exits with return code = -6",
        "terminate called after throwing",
        "aborted (core dumped)",
        "signal 6",
        "check failed: ",
    ),
    place=SYMPTOM,
)

FILES = failure(
    "too-many-files",
    "a process may not open more files or start more threads",
    CONFIGURATION,
    "raise the limit (ulimit -n, or pids of the node's kubelet), or use fewer workers",
    SAME,
    printed(
        "too many open files",
        "errno 24",
        "can't start new thread",
        "pthread_create failed",
        "resource temporarily unavailable",
        "blockingioerror",
        "cannot fork",
        "std::system_error",
    ),
    earlier="ray/few-open-files",
)

PYTHON = failure(
    "python-error",
    "the program ended with an error of Python",
    UNKNOWN,
    "read the last places of the traceback: the one in a file of yours, if there is one, is where to look",
    SAME,
    printed(
        "error",
        "exception",
        "exit",
        "timeout",
        "failure",
        "notfound",
        pattern=line.PYTHON_ERROR.pattern,
        # An error within a message is shown below it.
        unless=r"^exception\b|(?:error|exception)\S*: traceback \(",
        general=True,
    )
    # Alone it may be what a program prints of an error that it has handled. Its key is shorter than that of the causes
    # with places, which know more.
    + printed("except", pattern=r"^Exception: \S", frames=r"\S", unless=r"exception: traceback \(", general=True),
    place=EXCEPTION,
)

PEER = failure(
    "peer-disconnected",
    "a process lost the connection to another one, which had ended before",
    UNKNOWN,
    "look for the error of the process that ended first",
    HELPS,
    printed(
        "connectionreseterror",
        "brokenpipeerror",
        "eoferror",
        "cancellederror",
        "keyboardinterrupt",
        "broken pipe",
        "connection reset by peer",
        "connection closed by peer",
        "connectionabortederror",
        unless=OUTSIDE,
    )
    # Of a data set's map().
    + printed("subprocesses has abruptly died", pattern=r"^RuntimeError: One of the.*")
    + printed(
        "exception",
        "error",
        pattern=r"concurrent\.futures\.process\.BrokenProcessPool|multiprocessing\.context\.\w+Error",
    ),
    place=CONSEQUENCE,
)

SERVICE_LINK = failure(
    "service-variable",
    "a program takes the address of a Service for a setting of its own",
    CONFIGURATION,
    "Kubernetes gives every pod a variable NAME_PORT for each Service of the namespace: rename the Service, or set "
    "enableServiceLinks: false in the pod; pods of raycluster have it, those from an older release must be replaced",
    SAME,
    printed("appears to be a uri", pattern=r"_PORT\b.{0,200}appears to be a uri")
    + printed("tcp://", pattern=r"invalid (?:literal for int\(\) with base 10|int value): ['\"]tcp://"),
)

FORK = failure(
    "cuda-in-fork",
    "a process uses CUDA after it was forked from one that had used it",
    CONFIGURATION,
    "start processes with spawn (VLLM_WORKER_MULTIPROCESSING_METHOD=spawn), or do not touch CUDA before",
    SAME,
    printed("cannot re-initialize cuda in forked subprocess", "the 'spawn' start method"),
    value="job.env",
)

TIMEOUT = failure(
    "timeout",
    "something did not answer in time",
    UNKNOWN,
    "read in the lines before it what it waited for; another process that died or hangs looks like this",
    HELPS,
    printed("gettimeouterror", "raychanneltimeouterror", "timeoutexpired", "deadline_exceeded", "statuscode.deadline")
    + printed("timeouterror", pattern=r"^(?:asyncio\.|concurrent\.futures\.)?(?:\w+\.)*TimeoutError\b"),
    place=SYMPTOM,
)
