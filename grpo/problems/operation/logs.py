"""What our own launcher and guard print when they reject or end a run (jobs/launcher, jobs/guard)."""

from __future__ import annotations

from grpo.problems.network import logs as nccl
from grpo.problems.problem import CONFIGURATION, EXCEPTION, HELPS, SAME, SYMPTOM, UNKNOWN, failure
from grpo.problems.sign import printed

LAYERS = failure(
    "layers-disagree",
    "the cluster was installed from other values than the job",
    CONFIGURATION,
    "upgrade the older of the two releases with the same values files; the line names the keys that differ",
    SAME,
    printed("this job was rendered for", "is different on the cluster", "grpo_cluster_facts is not a json object"),
    value="ray",
    earlier="cluster/facts-differ",
)

IMAGE = failure(
    "image-of-another-version",
    "the image does not hold the framework's version that the values name",
    CONFIGURATION,
    "set images.training and job.version to versions that match",
    SAME,
    printed(
        "does not contain this framework",
        "has another version of the framework",
        "is not an executable on path in image",
    ),
    value="images.training",
    earlier=(
        "cluster/image-differs job/image-of-another-framework job/image-without-framework job/image-named-otherwise"
    ),
)

ATTEMPT = failure(
    "attempt-used",
    "the number of this attempt was used before",
    CONFIGURATION,
    "raise job.attempt above the number that the line names",
    SAME,
    printed("was made with another specification", "raise job.attempt above", "the guard has ended this attempt"),
    value="job.attempt",
)

RUN = failure(
    "run-name-taken",
    "the run's folder belongs to another run, or to none",
    CONFIGURATION,
    "choose another job.name",
    SAME,
    printed("belongs to another run", "does not identify a run", "there is no run in"),
    value="job.name",
)

OWNER = failure(
    "another-owner",
    "another attempt owns the run",
    CONFIGURATION,
    "wait until it has ended, or delete its RayJob and raise job.attempt",
    HELPS,
    printed("owns the run after", "the run was taken over by"),
    value="job.attempt",
)

CLAIM = failure(
    "claim-not-mounted",
    "the pod does not mount the volume of the run",
    CONFIGURATION,
    "upgrade the raycluster release with these values, so that its pods mount the claim",
    SAME,
    printed("this pod does not mount claim"),
    value="storage",
    earlier="cluster/mounts-differ",
)

CHECK = failure(
    "check-failed",
    "a check before the start found a mistake",
    CONFIGURATION,
    "correct the mistake that the lines above it name: of a reward, of the code, or of the step to resume from",
    SAME,
    printed(
        "found a mistake, see above",
        "has changed since it was fetched",
        "no plan on file descriptor 3",
        "grpo_owner_lapse_seconds must be",
    )
    + printed("grpo: job", pattern=r"grpo: job\.\S+ .*(?:could not|must|there is no|needs).*"),
    value="job",
    place=EXCEPTION,
    earlier="job/reward-does-not-compile job/reward-function job/disk-below-model job/guard-unknown-sign",
)

TASK = failure(
    "task-failed",
    "a task could not do its work",
    CONFIGURATION,
    "do what the line says",
    SAME,
    printed("grpo: failed: ", "grpo: cannot continue: ", pattern=r"grpo: (?:failed|cannot continue): .*"),
    place=EXCEPTION,
    value="job",
)

STALLED = failure(
    "stalled",
    "the guard stopped a trainer that made no progress",
    UNKNOWN,
    "its folder evidence/ has the stacks of all processes; a phase that is only slow needs a longer "
    "job.guard.deadlines",
    HELPS,
    printed("the trainer has stalled: ", "but its processes have not"),
    place=SYMPTOM,
    value="job.guard.deadlines",
    remark=nccl.first_rank,
    earlier="job/guard-below-step-time nemo-rl/async-epochs",
)

SIGN = failure(
    "ended-by-sign",
    "the guard ended the run because of a sign that the values name",
    CONFIGURATION,
    "docs/howto/metrics.md says what the sign means; change the values and raise job.attempt",
    SAME,
    printed("(job.guard.stopon)"),
    value="job.guard.stopOn",
)
