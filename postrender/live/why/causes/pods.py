"""What keeps a container from its start."""

from __future__ import annotations

from postrender.live.why.cause import CONFIGURATION, SAME, SYMPTOM, Cause, says
from postrender.live.why.line import EVENT, POD, WAIT

IMAGE = Cause(
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
    ),
    value="images.training",
)

FORMAT = Cause(
    "image-platform",
    "the image is built for another processor than the node has",
    CONFIGURATION,
    "build or choose the image for the node's platform (linux/arm64 for Grace)",
    SAME,
    says("exec format error"),
    value="images.training",
)

SECRET = Cause(
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
)

CREATE = Cause(
    "container-not-made",
    "the node cannot make a container",
    CONFIGURATION,
    "the message names the reason: a command that is not in the image, a device or a driver that the node lacks",
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
)

NODE_CHECK = Cause(
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
)

CRASH = Cause(
    "container-crashes",
    "a container ends again and again after its start",
    CONFIGURATION,
    "kubectl logs POD --previous shows its last words",
    SAME,
    says(
        "crashloopbackoff",
        "init container",
        pattern=r"waits, CrashLoopBackOff.*|init container \S+ has ended; exit code [1-9].*",
        general=True,
    ),
    place=SYMPTOM,
    value="ray",
)

NETWORK = Cause(
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
)
