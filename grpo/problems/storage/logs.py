"""Volumes, disks and their contents."""

from __future__ import annotations

from grpo.problems.line import WAIT
from grpo.problems.problem import CONFIGURATION, HELPS, SAME, SERVICE, SYMPTOM, failure
from grpo.problems.sign import printed, says

_ROOM = "insufficient|unschedulable|not-ready|unreachable|too many pods|untolerated"

DISK = failure(
    "disk-full",
    "a disk or a volume is full",
    CONFIGURATION,
    "the line names the file: free or enlarge its volume (task clean deletes old checkpoints); for a path in the pod "
    "raise its ephemeral storage, for an image that is unpacked give the nodes a larger boot disk",
    SAME,
    says(
        "no space left on device",
        "disk quota exceeded",
        "errno 28",
        "not enough free disk space",
        "errno 122",
        "not enough disk space",
        "storagefull",
    ),
    value="storage",
    earlier="job/volume-below-checkpoint job/volume-below-checkpoints",
)

EVICTED_DISK = failure(
    "evicted-disk",
    "a pod was evicted because it used too much of the node's disk",
    CONFIGURATION,
    "raise the pod's ephemeral storage, or put what grew (caches, Ray's session, checkpoints) on a volume",
    SAME,
    says(
        "ephemeral",
        "low on resource",
        "evicted",
        "usage of emptydir",
        "diskpressure",
        pattern=r"low on resource: ephemeral-storage.*|ephemeral local storage.*exceeds.*|"
        r"evicted.*ephemeral.storage.*|usage of emptydir.*exceeds.*|DiskPressure(?:\]|=True|\s+True)",
    ),
    value="accelerator.worker.ephemeralStorage",
    on_head="ray.head.ephemeralStorage",
    earlier="storage/bucket-cache-without-room",
)

EVICTED_MEMORY = failure(
    "evicted-memory",
    "a pod was evicted because its node had no memory left",
    CONFIGURATION,
    "request as much memory as the pod uses: a pod above its request goes first",
    HELPS,
    says(
        "low on resource",
        "memorypressure",
        pattern=r"low on resource: memory|MemoryPressure(?:\]|=True|\s+True)",
    )
    + says("low on resource", pattern=r"low on resource: (?:pids|nodefs|imagefs|inodes).*"),
    value="accelerator.worker.memory",
    on_head="ray.head.memory",
    earlier="ray/memory-without-limit",
)

CLAIM = failure(
    "claim-not-bound",
    "a volume claim has no volume",
    CONFIGURATION,
    "kubectl describe pvc CLAIM says why; check storage class, size and zone, or that the claim exists. If it is bound "
    "by now, the scheduler tries the pod again within 5 minutes, or at once if you delete the pod",
    SAME,
    says(
        "persistentvolumeclaim",
        pattern=r"persistentvolumeclaim \S+(?: |: )(?:not found|is not bound|is being deleted|bound to non-existent).*|"
        r"unbound immediate PersistentVolumeClaims.*",
    )
    + says("provisioningfailed", "failedbinding")
    + says("is pending", "is lost", kinds=(WAIT,), pattern=r"^is (?:Pending|Lost)(?:,| $|$)(?! it needs).*"),
    value="storage",
    earlier=(
        "claims volumes storage-classes storage/disk-for-several-nodes storage/lustre-size storage/lustre-parameters"
    ),
)

ELSEWHERE = failure(
    "volume-elsewhere",
    "the volume of a pod lies in another zone than the nodes, or on another node",
    CONFIGURATION,
    "kubectl get pv shows the zone of the volume: create the nodes in that zone. A new claim, of a storage class that "
    "waits for its pod (WaitForFirstConsumer), begins empty: copy the data before you delete the old one",
    SAME,
    # Where other nodes only lack room or are away, that comes first.
    says("volume node affinity conflict", "match persistentvolume's node affinity", unless=_ROOM),
    value="storage",
)

MOUNT = failure(
    "mount-fails",
    "a volume cannot be mounted",
    CONFIGURATION,
    "correct what the kubelet's message names: rights on the bucket, a volume in another zone, a path that is missing "
    "on the node, a driver that is not installed",
    SAME,
    says("failedmount", "failedattachvolume", "failedmapvolume", "multi-attach error for volume")
    + says("mountvolume.setup failed", "attachvolume.attach failed"),
    value="storage",
    earlier=(
        "drivers storage/bucket-without-sidecar storage/bucket-without-account "
        "storage/disk-that-never-attaches storage/lustre-handle config-maps"
    ),
)

CSI = failure(
    "volume-unreachable",
    "a mounted volume does not answer any more",
    SERVICE,
    "look at the volume's server and at the CSI driver or sidecar of the pod (out of memory?), then raise job.attempt",
    HELPS,
    printed(
        "transport endpoint is not connected",
        "stale file handle",
        "errno 116",
        "errno 107",
        "input/output error",
        "errno 5]",
    )
    + printed("did not answer for", pattern=r"the volume of .* did not answer for.*")
    + printed("owner record could not be written", "could not prove that it owns the run"),
    value="storage",
    earlier="storage/bucket-cache-without-room",
)

READ_ONLY = failure(
    "not-writable",
    "the program may not write where it has to",
    CONFIGURATION,
    "mount the volume read-write and give the pod's user or service account write access",
    SAME,
    printed("read-only file system", "errno 30")
    + printed(
        "permission denied",
        pattern=r"PermissionError: \[Errno 13\].*|(?:cannot|can't|could not|unable to|failed to) (?:create|"
        r"write|open|mkdir)\b.*permission denied.*",
    )
    + printed("cannot write to", pattern=r"grpo: cannot write to .* on claim .*"),
    value="storage",
)

BUCKET = failure(
    "bucket-rights",
    "an account may not read or write a bucket",
    CONFIGURATION,
    "give the pod's service account a role on the bucket: the notes of storage print the command",
    SAME,
    says("storage.objects.", "accessdenied", "invalidaccesskeyid", "nocredentialserror", "defaultcredentialserror")
    + says("storage.googleapis.com", "amazonaws.com", "gs://", "s3://", pattern=r"\b40[13]\b|forbidden|denied"),
    value="storage",
    earlier="storage/bucket-without-account",
)

PATH = failure(
    "file-missing",
    "a file that the run needs is not there",
    CONFIGURATION,
    "the line names the path: check it in the values, and that the volume with it is mounted where the program runs",
    SAME,
    printed(
        "filenotfounderror",
        "no such file or directory",
        pattern=r"FileNotFoundError: .*|\[Errno 2\].*|can't open file .*",
        # Ray looks for the log of a dashboard that did not start.
        # A file of each rank of verl is missing where another number of GPUs resumes: the checkpoint does not fit.
        unless=r"resource_tracker|core_pattern|/sys/|libcuda|nvcc|hub|huggingface|snapshot|dashboard\.(?:log|err)|"
        r"world_size_\d+_rank_",
    )
    + printed("does not exist: run job.task", pattern=r"does not exist: run job\.task \S+.*")
    + printed("does not exist: the configuration names it"),
    value="job.config",
    earlier=(
        "job/path-not-mounted job/path-only-in-image job/data-not-prepared data/another-name "
        "job/pattern-for-data nemo-rl/prompt-file"
    ),
)

HANG = failure(
    "volume-slow",
    "the volume of the run answers slowly",
    SERVICE,
    "look at the load of the volume's server; raise job.takeoverSeconds if saves take that long",
    HELPS,
    printed("the volume has not answered for", "waiting for the volume of"),
    place=SYMPTOM,
    value="job.takeoverSeconds",
)
