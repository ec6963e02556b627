"""Ray: its versions, its head, its actors."""

from __future__ import annotations

from grpo.problems.problem import CONFIGURATION, CONSEQUENCE, HELPS, SAME, SYMPTOM, UNKNOWN, failure
from grpo.problems.sign import printed, says

VERSIONS = failure(
    "ray-versions",
    "two processes of the cluster have another Ray or Python",
    CONFIGURATION,
    "head, workers and submitter need one image; set images.training for all of them",
    SAME,
    printed(
        "version mismatch",
        pattern=r"version mismatch: the (?:cluster|client|process).*|changing the ray version.*|"
        r"client server .*version mismatch.*",
    )
    + printed(
        "changing the ray version is not allowed",
        "the cluster was started with:",
        "ray version mismatch",
        "python minor versions differ",
    ),
    value="images.training",
    earlier="pods/moving-tag",
)

TOKEN = failure(
    "ray-token",
    "Ray asks for a token that is not there or is another one",
    CONFIGURATION,
    "the operator must be 1.5.1 or newer to hand out the token; or switch it off (ray.tokenAuth.enabled)",
    SAME,
    printed(
        "no authentication token was found",
        "invalidauthtoken",
        "authentication token is missing",
        "token authentication is enabled but",
        "invalid or missing authentication token",
        "unauthenticated: invalid",
    )
    + printed("authenticationerror: ", unless=r"openai|error code: 401|wandb|hugging")
    + printed("authentication", pattern=r"authentication (?:failed|required).*token.*", unless="wandb|hugging"),
    value="ray.tokenAuth.enabled",
    earlier="operator definitions",
)

ENVIRONMENT = failure(
    "runtime-environment",
    "Ray could not create the runtime environment of the job",
    CONFIGURATION,
    "read why in the lines below it: a package that cannot be installed, a folder that cannot be downloaded or is "
    "too large",
    SAME,
    printed(
        "runtimeenvsetuperror",
        "failed to set up runtime environment",
        "failed to setup runtime environment",
        "runtime_env setup failed",
        "failed to create runtime env",
        "failed to install pip",
        "runtimeenvcreationerror",
        "could not build wheels",
        "could not find a version that satisfies",
        "no matching distribution found",
        "requestentitytoolarge",
        "exceeds the maximum size of",
        "which exceeds the maximum",
    )
    + printed(
        "uv", pattern=r"\buv(?: pip| sync| run)?\b.*(?:no solution found|failed to (?:build|fetch|download|prepare)).*"
    ),
    value="job.runtimeEnv",
)

HEAD = failure(
    "head-lost",
    "the head of the Ray cluster was lost or restarted",
    UNKNOWN,
    "look at the head pod: its last state says out of memory, evicted or a lost node; then raise job.attempt",
    HELPS,
    printed(
        "failed to connect to gcs",
        "unable to connect to gcs",
        "gcs_rpc_server_reconnect_timeout_s",
        "gcs server is dead",
        "gcs has become unresponsive",
        "lost connection to gcs",
        "failed to get cluster id from gcs",
        "timed out while waiting for gcs",
        "raylet lost connection to gcs",
        "could not read 'dashboard'",
        "gcs is unavailable",
        "failed to connect to the head",
    )
    + printed("gcs", pattern=r"(?:gcs|global control s\w)[^\n]*(?:unavailable|is down|died|timed? ?out|unreachable).*")
    + says(
        "head pod",
        pattern=r"head pod .*(?:lost|deleted|restarted|not found|has failed).*",
    ),
    place=SYMPTOM,
    value="ray.head",
    earlier="ray/small-head",
)

NOT_STARTED = failure(
    "ray-not-started",
    "Ray did not start on a node",
    UNKNOWN,
    "look into Ray's logs in that pod, /tmp/ray/session_latest/logs (raylet.out, gcs_server.out, dashboard_agent.log): "
    "a library of another version (grpcio, opentelemetry), a port that is in use, or too little memory or CPU",
    HELPS,
    printed(
        "the current node timed out during startup",
        "failed to register worker",
        "agent is working abnormally",
        "raylet could not connect to runtime env agent",
    ),
    place=SYMPTOM,
    value="images.training",
)

NO_CLUSTER = failure(
    "no-ray-cluster",
    "the program finds no Ray cluster",
    CONFIGURATION,
    "start it in a pod of the cluster, with the address of the head (RAY_ADDRESS)",
    SAME,
    printed(
        "could not find any running ray instance",
        "could not connect to ray",
        "failed to connect to ray cluster",
        "cannot ask ray for its nodes",
        "ray client connection timeout",
        "initialization failure from server",
    ),
    place=SYMPTOM,
    value="job.cluster",
)

ACTOR = failure(
    "actor-died",
    "a worker of Ray died",
    UNKNOWN,
    "read the end of that worker's log (attempts/N/evidence/…/worker-logs.txt)",
    HELPS,
    printed(
        "actordiederror",
        "rayactorerror",
        "the actor died",
        "actor is dead",
        "the actor is temporarily unavailable",
        "actorunavailableerror",
        "workercrashederror",
        "a worker died or was killed",
        "worker unexpectedly exits",
        "worker exits unexpectedly",
        "owner died",
        "raytaskerror",
        "local raylet died",
        "raylet died",
        "actor died unexpectedly",
        "the worker died",
        "objectlosterror",
        "objectfetchtimedouterror",
        "referencecountingassertionerror",
        "object has already been deleted",
        "unexpected system error",
        "worker crashed",
    ),
    place=CONSEQUENCE,
)

ENGINE = failure(
    "engine-died",
    "the engine of vLLM or SGLang has ended",
    UNKNOWN,
    "read why in the lines above it, in the output of the process EngineCore",
    HELPS,
    printed(
        "enginedeaderror",
        "engine core initialization failed",
        "enginecore encountered",
        "enginecore failed to start",
        "enginecore died",
        "engine process failed to start",
        "failed core proc",
        "enginegenerateerror",
        "workerproc initialization failed",
        "workerproc failed to start",
        "executor failed",
        "background loop has errored",
        "asyncenginedeaderror",
        "engine loop has died",
        "server process terminated",
        "sigquit received",
        "scheduler hit an exception",
        "see root cause above",
        "see stack trace above",
        "launching the server failed",
    ),
    place=CONSEQUENCE,
)

RANK = failure(
    "rank-ended",
    "a rank has ended, and its launcher stopped the others",
    UNKNOWN,
    "look at the first rank that failed, not at those that were stopped",
    HELPS,
    printed(
        "childfailederror",
        "sending process",
        "root cause (first observed failure)",
        "processraisedexception",
        "processexitedexception",
        "signalexception",
        "exitcode  :",
        "failed (exitcode:",
        "raise subprocess.calledprocesserror",
        "calledprocesserror",
        "terminating process group",
        "remote process exited or there was a network error",
        "ncclremoteerror",
        "remote error: a call failed possibly due to a network error",
        "processgroupwrapper",
    )
    + printed("worker failed with error", "exits with return code", general=True),
    place=CONSEQUENCE,
)
