"""Capacity: what is waiting for nodes, quotas and queues, and what lost its node."""

from __future__ import annotations

from grpo.problems.line import WAIT
from grpo.problems.problem import CAPACITY, CONFIGURATION, HELPS, ORIGIN, SAME, SERVICE, WAITS, failure
from grpo.problems.sign import printed, says

UNSCHEDULABLE = failure(
    "cannot-be-scheduled",
    "no node takes a pod of the run",
    CAPACITY,
    "the line counts the nodes by what keeps each from taking the pod; create or enlarge the node pool, free "
    "nodes, or use the profile of your machines; where a taint keeps them out, set accelerator.tolerations",
    WAITS,
    says("is pending, it needs", pattern=r"is Pending, it needs.*")
    + says("failedscheduling", general=True)
    + says("notriggerscaleup", "nodes are available:", "didn't match pod's node affinity", "had untolerated taint"),
    value="ray.workers.replicas",
    on_head="ray.head",
    earlier=(
        "nodes room nodes/too-large nodes/selector-of-another-cloud network/device-of-another-cloud "
        "nodes/arm-not-tolerated"
    ),
)

STOCK = failure(
    "no-capacity",
    "the cloud has no machine of this type left in the zone",
    CAPACITY,
    "wait, use a reservation, another zone, or Flex-start or Spot of another type",
    WAITS,
    says(
        "gce_stockout",
        "zone_resource_pool_exhausted",
        "does not have enough resources available to fulfill the request",
        "gce quota exceeded",
        "insufficientinstancecapacity",
        "failedscaleup",
        "scale.up.error.out.of.resources",
        "exceeded quota 'gpus",
    ),
    value="accelerator",
)

KUEUE = failure(
    "kueue-waits",
    "the run waits in a queue of Kueue",
    CAPACITY,
    "the line says what the queue lacks; wait, or ask for quota of each resource that the pods request",
    WAITS,
    says(
        "waits in kueue's queue",
        "held back by the scheduling gate",
        "couldn't assign flavors to pod set",
        "insufficient quota for",
        "insufficient unused quota",
        "quotareserved=false",
        "workload is waiting for quota",
    )
    + says("is suspended", kinds=(WAIT,)),
    value="ray.kueue.queue",
    earlier="queue flavors queue-priority job/topology-of-one-host",
)

TOPOLOGY = failure(
    "kueue-topology",
    "a flavor of Kueue takes only pods that ask for a place in its topology",
    CONFIGURATION,
    "set ray.kueue.topology.preferred or required to a level of the flavor's Topology, or use a queue with another "
    "flavor",
    SAME,
    says("supports only topologyawarescheduling", unless=r"quota reserved|nofit|insufficient unused quota"),
    value="ray.kueue.topology",
    earlier="kueue/topology-of-object",
)

QUOTA = failure(
    "quota-exceeded",
    "the namespace's quota has no room",
    CAPACITY,
    "kubectl describe resourcequota; free what uses it, or have it raised; a priority class that the line names may "
    "need a quota of its own in this namespace",
    WAITS,
    says("exceeded quota", "failed quota", "must specify limits.", "must specify requests.")
    + says("insufficient quota to match these scopes"),
    value="accelerator.worker",
    on_head="ray.head",
    earlier="quota",
)

REFUSED = failure(
    "pod-refused",
    "the API server refuses the pods: a policy of the namespace",
    CONFIGURATION,
    "change the pods, or ask an administrator to change the policy that the message names: LimitRange, Pod Security or "
    "an admission webhook",
    SAME,
    says(
        "violates podsecurity",
        "admission webhook",
        "denied the request",
        "unable to validate against any security context constraint",
        "validatingadmissionpolicy",
    )
    + says(
        "forbidden",
        pattern=r"(?:maximum|minimum) (?:cpu|memory|ephemeral-storage)[^\n]* usage per (?:container|pod).*|"
        r"max limit to request ratio.*|no priorityclass .*|error looking up service account.*",
    ),
    value="ray",
    earlier="pod-security pods/pod-security limit-range priority accounts pods/privileged",
)

RIGHTS = failure(
    "no-rights",
    "an account may not do what it has to",
    CONFIGURATION,
    "grant the verb on the resource that the line names to this account",
    SAME,
    says("is forbidden: user", 'cannot create resource "', 'cannot get resource "', 'cannot patch resource "'),
    earlier="rights",
)

PREEMPTED = failure(
    "node-taken-away",
    "a node was taken away: Spot, maintenance, or an autoscaler",
    CAPACITY,
    "raise job.attempt: the run resumes from its last checkpoint. Save more often, or leave Spot",
    HELPS,
    says(
        "deletionbypodgc",
        "deletionbytaintmanager",
        "terminationbykubelet",
        "nodeshutdown",
        "imminent node shutdown",
        "deletingnode",
        "evictionbyevictionapi",
        "taintmanagereviction",
        "removingnode",
        "node is shutting down",
        "out-of-service",
        "spot instance",
    )
    + printed(
        "the node was preempted",
        "instance was preempted",
        "spot instance interruption",
        "preemption notice",
        "node was drained",
    ),
    value="accelerator",
    earlier="job/machines-taken-away",
)

PREEMPTED_BY_POD = failure(
    "preempted-by-priority",
    "a pod with a higher priority took the place of one of the run",
    CAPACITY,
    "raise the priority class of the run, or let Kueue decide who goes first",
    HELPS,
    says("preemptionbyscheduler", "preempted by", "preempted to accommodate"),
    place=ORIGIN,
    value="ray",
)

WORKERS = failure(
    "workers-missing",
    "the GPU workers did not join the Ray cluster in time",
    CAPACITY,
    "look at the worker pods and their events; compare job.nodes with ray.workers.replicas; raise "
    "job.workersTimeoutSeconds if nodes come late",
    HELPS,
    printed("pods of the gpu workers are missing")
    + printed("the ray cluster has", pattern=r"after \d+ s the Ray cluster has .* this run needs .*missing.*"),
    value="ray.workers.replicas",
    earlier="cluster/too-few-gpu-nodes nodes room ray/replicas-outside-bounds ray/group-not-a-name",
)

BUSY = failure(
    "gpus-busy",
    "something else uses the GPUs of the Ray cluster",
    CAPACITY,
    "kubectl get rayjob shows what else runs there; stop what should not run",
    WAITS,
    printed("something else uses the gpus"),
    value="job.cluster",
)

PLACEMENT = failure(
    "placement-group",
    "Ray did not find the GPUs or CPUs that the run asks for",
    CAPACITY,
    "compare the GPUs that the run asks for with `ray status`: workers that are missing, GPUs that another job "
    "holds, or "
    "more CPUs a GPU than a node has",
    HELPS,
    printed(
        "timed out waiting for placement group",
        "placement group creation timed out",
        "cannot be scheduled right now",
        "no available node types can fulfill",
        "cluster resources may be insufficient",
        "is less than total desired gpus",
        "placement group is not ready",
        "placementgroupschedulingerror",
        "cannot provide a placement group",
        "not enough gpus available",
        "the placement group requires",
        "pending placement groups",
        "waiting for creating a placement group",
        "there are not enough resources for the tasks or actors",
    )
    + printed(
        "gpus",
        pattern=r"(?:requested|required?s?|needs?|expected|wants?)\s+\d+\s+gpus?\b[^\n]*\b(?:only|but|"
        r"available)\b.*|total available gpus .* less than.*|not enough (?:gpu|cpu|resource)s?.*",
    )
    + printed("actorunschedulableerror", unless="nodeaffinity")
    + printed("insufficient", pattern=r"insufficient (?:gpu|cluster) resources.*|resources? (?:are|is) insufficient.*"),
    value="ray.workers.replicas",
    earlier=(
        "verl/cpus-for-gpus nemo-rl/cpus-for-gpu-workers verl/device job/head-without-cpu cluster/head-without-cpu"
    ),
)

WEBHOOK = failure(
    "webhook-unreachable",
    "an admission webhook of the cluster does not answer, so objects cannot be created",
    SERVICE,
    "look at the pods behind the service that the line names",
    HELPS,
    says("failed calling webhook", "failed to call webhook"),
)
