"""Services outside the cluster: Hugging Face, trackers, DNS."""

from __future__ import annotations

from grpo.problems.problem import CONFIGURATION, HELPS, SAME, SERVICE, SYMPTOM, failure
from grpo.problems.sign import printed

# A server of the run: a private address, or a name that only the cluster knows.
_INSIDE = (
    r"127\.0\.0\.1|0\.0\.0\.0|localhost|\b10\.\d+\.\d+\.\d|\b172\.(?:1[6-9]|2\d|3[01])\.\d+\.\d|\b192\.168\.\d+\.\d|"
    r"\.svc\b|-svc\b|\.lan\b|host='[^'.]+'"
)
# The name of a host as the internet has them, with no port that only servers of a run have. `judge.rl` is a Service.
_HOST = (
    r"(?!docs?\.|github\.com|[^/\s]*readthedocs)(?:[a-z0-9-]{1,63}\.){1,8}"
    r"(?:com|org|net|io|ai|co|cn|cloud|edu|gov|eu)(?!\.?[\w-])(?!(?:', port=|:| port )(?!443\b|80\b)\d)"
)
# A failure of the Hub, a mirror or a tracker, and not of a server of the run that was asked for a model of the Hub.
OUTSIDE = (
    rf"^(?!.*(?:{_INSIDE})).*(?:huggingface\.co|\bhf\.co\b|"
    rf"(?:https?://|host='|connect(?:ion)? to (?:host )?){_HOST})"
)
_HUB = r"hugging ?face|hf\.co|hf_hub|hub_|huggingface_hub|repo|/resolve/"

UNAUTHORIZED = failure(
    "hf-unauthorized",
    "Hugging Face does not accept the token, or there is none (401)",
    CONFIGURATION,
    "put a valid token into the Secret, and check that the pods get it; a private or misspelt name answers 401 too",
    SAME,
    printed("401", pattern=rf"401 (?:client error|unauthorized).*|(?:{_HUB}).*\b401\b.*", unless="wandb|registry")
    + printed(
        "invalid user token",
        "invalid username or password",
        "invalid credentials in authorization header",
        "token is required",
        "localtokennotfounderror",
        "please make sure you are authenticated",
        "token has expired",
        "you must be authenticated",
    ),
    value="huggingface.secret.name",
    earlier="hugging-face cluster/environment-differs",
)

GATED = failure(
    "hf-gated",
    "this account may not read the model or data set at Hugging Face (403)",
    CONFIGURATION,
    "accept the licence on its page with the account of the token, and give a fine-grained token the right to "
    "read gated "
    "repositories",
    SAME,
    printed(
        "gatedrepoerror",
        "cannot access gated repo",
        "access a gated repo",
        "is a gated repo",
        "is not in the authorized list",
        "you have been granted access",
    )
    + printed("403", pattern=rf"403 (?:client error|forbidden)[^\n]*(?:{_HUB})?.*", unless="wandb|storage|gcs|registry")
    + printed("restricted", pattern=r"access to (?:model|dataset) \S+ is restricted.*"),
    value="huggingface.secret.name",
    earlier="hugging-face cluster/environment-differs",
)

NOT_FOUND = failure(
    "hf-not-found",
    "Hugging Face does not know the model, data set, revision or file (404)",
    CONFIGURATION,
    "check the spelling of the name, and whether it is a path that is not mounted here",
    SAME,
    printed(
        "repositorynotfounderror",
        "revisionnotfounderror",
        "entrynotfounderror",
        "is not a local folder and is not a valid model identifier",
        "repo id must be in the form",
        "hfvalidationerror",
        "repo id must use alphanumeric",
        "repository not found for url",
        "incorrect path_or_model_id",
        "is not the path to a directory containing",
        "no file named model.safetensors",
        unless=r"\b401\b",
    )
    # The file of a value head is looked for in models that have none.
    + printed("does not appear to have a file named", unless=r"value_head|v_head|^\W*info\b|\b401\b")
    + printed("404", pattern=rf"404 (?:client error|not found)[^\n]*(?:{_HUB}).*"),
    value="job.config",
    earlier=(
        "hugging-face job/model-misspelt job/relative-model job/model-not-named "
        "verl/critic-without-model job/address-not-loaded"
    ),
)

LIMITED = failure(
    "hf-rate-limit",
    "Hugging Face refuses because of too many requests (429)",
    SERVICE,
    "run task fetch once, then set huggingface.offline.enabled: the pods read the volume",
    HELPS,
    printed(
        "429", pattern=r"429 (?:client error|too many requests).*|\b429\b.*too many requests.*|status.?code:? 429.*"
    )
    + printed(
        "too many requests",
        "http error 429",
        "rate limited. waiting",
        "rate limit exceeded",
        "you have exceeded your rate",
        "rate-limited",
        "we had to rate limit",
    ),
    value="huggingface.offline.enabled",
    earlier="job/each-node-downloads",
)

OFFLINE = failure(
    "hf-offline",
    "a file is not in the cache of Hugging Face, and the Hub is not asked",
    CONFIGURATION,
    "run task fetch for this model and data set, with the same cache, or switch offline mode off",
    SAME,
    printed(
        "outgoing traffic has been disabled",
        "offlinemodeisenabled",
        "localentrynotfounderror",
        "couldn't find them in the cached files",
        "cannot find the requested files in the disk cache",
        "cannot find an appropriate cached snapshot folder",
        "cannot find the requested files in the local cache",
        "offline mode is enabled",
        "couldn't find it in the cached files",
        "couldn't reach",
        "in offline mode",
    ),
    value="huggingface.offline.enabled",
    earlier="job/cache-without-model job/offline-without-data",
)

UNREACHABLE = failure(
    "hub-unreachable",
    "a server outside of the cluster did not answer",
    SERVICE,
    "try again later, or fetch once with task fetch; check that pods may reach the internet",
    HELPS,
    printed("server error", pattern=r"50[0-4] server error.*", unless=_INSIDE)
    + printed(
        "maxretryerror",
        "max retries exceeded with url",
        "read timed out",
        "connecttimeout",
        "readtimeout",
        "remotedisconnected",
        "sslerror",
        "certificate verify failed",
        "certificate signed by unknown authority",
        "incompleteread",
        "chunkedencodingerror",
        "clientconnectorerror",
        "consistency check failed",
        "bad gateway",
        "service unavailable",
        # The source line of a traceback names no host.
        unless=rf"ray::|^(?:\S+ >> )?\s*raise \w|{_INSIDE}",
    )
    + printed(
        "connection refused",
        "connectionreseterror",
        "connection reset by peer",
        "failed to establish a new connection",
        "network is unreachable",
        pattern=OUTSIDE,
    )
    + printed("failed to download", pattern=r"failed to download \d+ bytes from.*", unless=rf"\bwarn|retry|{_INSIDE}")
    + printed("cas service error", unless=r"\bwarn|retrying|\b403\b|forbidden|no space left|too many open"),
    value="huggingface",
)

NAMES = failure(
    "dns",
    "a name of a host cannot be resolved",
    SERVICE,
    "look at the cluster's DNS and at what the pod may reach; kubectl exec POD -- getent hosts NAME",
    HELPS,
    printed(
        "temporary failure in name resolution",
        "name or service not known",
        "could not resolve host",
        "nodename nor servname provided",
        "getaddrinfo failed",
        "nameresolutionerror",
        "no address associated with hostname",
        "errno -2",
        "errno -3",
        "dns resolution failed",
    )
    + printed("no such host"),
)

TRACKER = failure(
    "tracker-refused",
    "the service that records the run refuses it",
    CONFIGURATION,
    "check the key in the Secret and the project's rights, or set the mode to offline",
    SAME,
    printed(
        "wandb",
        "swanlab",
        "mlflow",
        pattern=r"wandb[:.]? ?error[^\n]*(?:api.?key|login|permission|401|403|not found|entity).*|"
        r"wandb\.\w*\.?\w*(?:UsageError|AuthenticationError|CommError).*|(?:swanlab|"
        r"mlflow)[^\n]*(?:unauthorized|login|permission|api.?key).*",
    )
    + printed(
        "api_key not configured",
        "no api key configured",
        "user is not logged in",
        pattern=r"api_key not configured.*|no api key configured.*|user is not logged in.*",
    )
    + printed("usageerror", pattern=r"UsageError: .*(?:api|key|login|wandb|permission).*")
    + printed("commerror", pattern=r"CommError: .*"),
    value="tracking",
    earlier="cluster/environment-differs",
)

PORT = failure(
    "port-in-use",
    "a port is in use already",
    CONFIGURATION,
    "find what listens on the port (ss -ltnp in the pod): another run, a process of an earlier try, or one port for "
    "two servers; end it or change the port",
    HELPS,
    printed(
        "address already in use",
        "eaddrinuse",
        "port is already in use",
        "errno 98",
        "port already in use",
        "failed to bind",
        "address in use",
    )
    + printed("port", pattern=r"port \d+ is (?:already )?(?:in use|occupied|not available).*"),
    earlier="network/ray-on-host-network",
)

REFUSED = failure(
    "connection-refused",
    "a server of the run did not answer",
    SERVICE,
    "look for the end of the server that the line names; a proxy that the pod's http_proxy names answers 502 for "
    "servers of the run: put their addresses into no_proxy",
    HELPS,
    printed("error code: 502", pattern=r"error code: 502\b(?!\")", unless=r"\bwarn|retrying")
    + printed("server error", "bad gateway", "service unavailable", pattern=rf"50[0-4].*(?:{_INSIDE})")
    + printed("max retries exceeded with url", "read timed out", "readtimeout", "connecttimeout", pattern=_INSIDE)
    + printed(
        "connection refused",
        "connectionrefusederror",
        "errno 111",
        "failed to establish a new connection",
        "cannot connect to host",
        "statuscode.unavailable",
        unless=OUTSIDE,
    ),
    place=SYMPTOM,
    earlier="job/mlflow-on-the-head",
)
