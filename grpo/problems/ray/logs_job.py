"""A run's objects: the RayJob, its operator, and what keeps a container from starting."""

from __future__ import annotations

from grpo.problems.line import EVENT, OPERATOR, POD, WAIT
from grpo.problems.problem import CAPACITY, CONFIGURATION, CONSEQUENCE, HELPS, SAME, SERVICE, SYMPTOM, UNKNOWN, failure
from grpo.problems.sign import says

NOT_SUBMITTED = failure(
    "job-not-submitted",
    "the operator cannot reach the head on port 8265, so the job never starts",
    CONFIGURATION,
    "allow the operator's namespace to reach port 8265 of the head (ray.networkPolicy.operatorNamespace); a token that "
    "the operator does not send looks the same; then annotate the RayJob, so that the operator tries at once",
    SAME,
    says(
        "8265",
        pattern=r":8265.*(?:refused|timeout|deadline exceeded|no such host|EOF|unreachable|reset|"
        r"Client\.Timeout).*|failed to (?:get|submit) .*8265.*",
    )
    + says("has not reached port 8265")
    + says("failed to get job info", "failed to submit", "dashboard client", kinds=(OPERATOR,)),
    value="ray.networkPolicy.operatorNamespace",
    earlier="ray/dashboard-port-missing",
)

OPERATOR_DOWN = failure(
    "operator-not-working",
    "no KubeRay operator processes the objects of the run",
    SERVICE,
    "check that the operator runs (kubectl get deployments -A -l app.kubernetes.io/name=kuberay-operator) and watches "
    "this namespace",
    HELPS,
    says("has not processed it yet; check that it runs"),
    earlier="operator",
)

DEADLINE = failure(
    "deadline",
    "the run was ended by its own deadline",
    CONFIGURATION,
    "set a longer job.deadlineSeconds, and raise job.attempt: the run resumes",
    SAME,
    says("deadlineexceeded", pattern=r"^DeadlineExceeded.*|(?<!PreRunning)DeadlineExceeded.*")
    + says("activedeadlineseconds"),
    value="job.deadlineSeconds",
    earlier="job/deadline-before-checkpoint ray/pods-end",
)

NOT_READY = failure(
    "cluster-not-ready",
    "the Ray cluster was not ready in time",
    CAPACITY,
    "see what its pods wait for; then raise job.attempt",
    HELPS,
    says("prerunningdeadlineexceeded", "prerunningdeadlineseconds"),
    place=SYMPTOM,
    value="job.cluster.timeoutSeconds",
    earlier="nodes room queue claims",
)

STATUS_TIMEOUT = failure(
    "job-status-timeout",
    "the operator could not ask the head about the job for too long",
    SERVICE,
    "look at the head pod: lost, restarted or out of memory; then raise job.attempt",
    HELPS,
    says("jobstatuschecktimeoutexceeded"),
    place=SYMPTOM,
    earlier="ray/small-head",
)

SUBMISSION = failure(
    "submission-failed",
    "the job could not be handed to Ray",
    CONFIGURATION,
    "read why in the message; the log of the submitter's pod has the rest",
    SAME,
    says("submissionfailed") + says("validationfailed"),
    place=SYMPTOM,
    value="job",
    earlier=(
        "ray/entrypoint-missing ray/entrypoint-resources ray/metadata-needs-version ray/job-cannot-retry "
        "ray/selector-excludes ray/ttl-without-shutdown"
    ),
)

RETRIES = failure(
    "retries-used-up",
    "all tries of the run have failed",
    UNKNOWN,
    "repair the cause of the last one; more tries do not help",
    SAME,
    says("backofflimitexceeded", "backofflimit"),
    place=CONSEQUENCE,
    value="job.retries",
)

CLUSTER_GONE = failure(
    "cluster-gone",
    "the RayCluster of the run is not there any more",
    CONFIGURATION,
    "install the raycluster release again; the run resumes, or end it by raising job.attempt",
    SAME,
    says("rayclusternotfound"),
    value="ray",
    earlier="cluster/missing",
)

INVALID = failure(
    "object-refused",
    "the operator refuses the specification of the cluster or the job",
    CONFIGURATION,
    "the event names the field: grpo check judges the manifest; the operator may be too old for it",
    SAME,
    says(
        "invalidrayclusterspec",
        "invalidrayjobspec",
        "invalidrayclustermetadata",
        "invalidrayjobmetadata",
        "invalidrayjobstatus",
    ),
    value="ray",
    earlier=(
        "ray/job-cannot-retry ray/selector-excludes ray/ttl-without-shutdown ray/resources-twice ray/min-above-max"
    ),
)

REFUSED = failure(
    "object-invalid",
    "the API server refuses an object",
    CONFIGURATION,
    "correct the fields that the message names; grpo check judges the manifest before it is applied",
    SAME,
    says("is invalid: ", pattern=r"[\w.]+ \\?\"[\w.-]+\\?\" is invalid: .*"),
    earlier=(
        "kubernetes/value-refused pods/requests-above-limits pods/no-such-resource "
        "storage/mount-without-volume ray/group-not-a-name"
    ),
)

DEFINITIONS = failure(
    "definitions-missing",
    "the API server does not know a kind of KubeRay, or not its version",
    CONFIGURATION,
    "install the CRDs of the operator's version; grpo doctor compares them with what the charts write",
    SAME,
    says("no matches for kind", "ensure crds are installed first"),
    earlier="kinds definitions kubernetes/no-such-kind",
)

FAILED_CREATE = failure(
    "pods-not-created",
    "the operator cannot create the pods of the cluster",
    CONFIGURATION,
    "read the API server's answer in the event, and correct what it names: quota, policy or field",
    SAME,
    says("failedtocreate", "failedcreate", pattern=r"\bFailedToCreate|\bFailedCreate\b", general=True),
    place=SYMPTOM,
    value="ray",
    earlier="runtime-classes namespace",
)

IMAGE = failure(
    "image-pull",
    "an image cannot be pulled",
    CONFIGURATION,
    "check repository, tag and digest, that the node may reach the registry, and its imagePullSecrets",
    SAME,
    says(
        "errimagepull",
        "imagepullbackoff",
        "invalidimagename",
        "errimageneverpull",
        "manifest unknown",
        "pull access denied",
        "failed to pull image",
        "failed to pull and unpack",
        "no match for platform",
        "registryunavailable",
        "imageinspecterror",
        # The disk of the node is full, and the image is right.
        unless="no space left on device",
    ),
    value="images.training",
    earlier="job/image-not-published values/digest-of-another-image accounts",
)

FORMAT = failure(
    "image-platform",
    "the image is built for another processor than the node has",
    CONFIGURATION,
    "build or choose the image for the node's platform (linux/arm64 for Grace)",
    SAME,
    says("exec format error"),
    value="images.training",
)

SECRET = failure(
    "secret-missing",
    "a Secret, a ConfigMap or one of its keys is not there",
    CONFIGURATION,
    "create it in this namespace with that key; grpo doctor lists what the pods need",
    SAME,
    says(
        "secret",
        "configmap",
        pattern=r"(?:secrets?|configmaps?) \\?\"[^\"]+\" not found.*|couldn't find key .* in (?:secret|"
        r"configmap) .*|references non-existent (?:secret|config) key.*",
    ),
    value="huggingface.secret.name",
    earlier="secrets config-maps storage/reference-absent",
)

CREATE = failure(
    "container-not-created",
    "the node cannot create a container",
    UNKNOWN,
    "correct what the message names: a command that is not in the image, or a device or driver that the node lacks",
    SAME,
    says(
        "createcontainererror",
        "createcontainerconfigerror",
        "runcontainererror",
        "oci runtime create failed",
        "starterror",
        "containercannotrun",
        "failedcreatepodsandbox",
        "unexpectedadmissionerror",
        "failedpreparedynamicresources",
        general=True,
    ),
    place=SYMPTOM,
    value="ray",
    earlier="ray/command-is-no-program job/mount-hides-image",
)

NODE_CHECK = failure(
    "node-check",
    "a node lacks what the run needs from it: driver files, RDMA plugin, or volume",
    CONFIGURATION,
    "kubectl logs POD --container check-node says which; install the RDMA plugin or a newer driver",
    SAME,
    says(
        "check-node",
        pattern=r"init container check-node has ended.*|init container check-node waits, CrashLoopBackOff.*",
    ),
    value="network.mode",
    earlier="installer clouds/image-without-gib",
)

CRASH = failure(
    "container-crashes",
    "a container ends again and again after its start",
    CONFIGURATION,
    "kubectl logs POD --previous shows its last words",
    SAME,
    says(
        "crashloopbackoff",
        "init container",
        "back-off restarting failed container",
        "init:error",
        pattern=r"back-off restarting failed container|Init:Error|waits, CrashLoopBackOff|"
        r"init container \S+ has ended; exit code [1-9].*",
        general=True,
    ),
    place=SYMPTOM,
    value="ray",
    earlier="ray/gpus-hidden job/devices-of-ray ray/command-never-starts-ray network/ray-on-host-network",
)

NETWORK = failure(
    "network-missing",
    "a pod asks for a network that does not exist",
    CONFIGURATION,
    "install the network layer; check network.names.prefix",
    SAME,
    says(
        "network",
        kinds=(EVENT, POD, WAIT),
        pattern=r"networks?\.networking\.gke\.io .*not found.*|network \S+ (?:not found|does not exist|"
        r"is not ready).*|resourceclaim\w* \S+ not found.*|cannot find.*DeviceClass.*",
    ),
    value="network.names.prefix",
    earlier="networks network/no-such-networks network/interfaces-of-another-machine device-classes resource-claims",
)

PROBE = failure(
    "probe-failed",
    "a container does not answer the probes of the kubelet",
    UNKNOWN,
    "look at its memory and its last words; a head that is busy answers late",
    HELPS,
    says("liveness probe failed", "readiness probe failed", "startup probe failed", "failed liveness probe"),
    place=SYMPTOM,
    value="ray.workers",
    on_head="ray.head",
    earlier="ray/command-never-starts-ray",
)
