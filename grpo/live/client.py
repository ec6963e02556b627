"""Read objects from the API server, with the user's kubeconfig and rights; the extra `live` installs the client.

No other module of this package talks to a cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

# The client reads kubeconfigs by itself, and lets this through.
from yaml import YAMLError

from grpo.helm import kubectl
from postrender import json_text
from postrender.errors import ClusterError, InstallationError
from postrender.types import Json

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

# Seconds to connect, and seconds between two pieces of an answer.
_TIMEOUT: Final = (3.0, 6.0)
# Objects in one answer; the API server pages what is longer.
_PAGE: Final = 500
_CONNECTIONS: Final = 64
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_NOT_FOUND: Final = 404
_OK: Final = (200, 201)


class RefusedError(Exception):
    """One thing could not be read: `status` is the HTTP status, 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_unknown(self) -> bool:
        """Return whether the API server does not have such an object, or such a kind."""
        return self.status == _NOT_FOUND


class _CredentialErrors(logging.Handler):
    """Keep what the client logs about a credential program; without any handler Python would print it on stderr."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error of the root logger: the client goes on without credentials after it."""
        if record.name == "root":
            said = " ".join(record.getMessage().split())
            # On a terminal the program writes there, and the client fails because it has none of its words.
            self.last = "its own message is above" if said.startswith("'NoneType' object") else said


_CREDENTIAL_ERRORS: Final = _CredentialErrors(logging.ERROR)


class Cluster:
    """The API server of one context. `namespace` is the one to look into."""

    def __init__(self, client: ApiClient, context: str, namespace: str) -> None:
        self._client = client
        self.context = context
        self.namespace = namespace

    def get(self, path: str, *, accept: str = "application/json", **query: str | int) -> Json:
        """Return the object at a path of the API; raise RefusedError."""
        return _json(self._call("GET", path, {"Accept": accept}, query))

    def review(self, attributes: dict[str, str]) -> dict[str, Any]:
        """Ask whether the user may do something; raise RefusedError. A review is an answer, nothing is stored."""
        group = "authorization.k8s.io/v1"
        body = {"apiVersion": group, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        answer = _json(self._call("POST", f"/apis/{group}/selfsubjectaccessreviews", headers, {}, body))
        return answer if isinstance(answer, dict) else {}

    def _call(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        query: dict[str, str | int],
        body: dict[str, Any] | None = None,
    ) -> str:
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 (an extra)
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 (the client's)

        call = self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*call, _request_timeout=_TIMEOUT)
            data = answer.read()
        # A token with letters that no header can have is a UnicodeError.
        except (ApiException, HTTPError, OSError, UnicodeError) as error:
            raise RefusedError(0, _reason(error)) from error
        text = (data or b"").decode("utf-8", errors="replace")
        if answer.status not in _OK:
            raise RefusedError(answer.status, _message(text, answer.status))
        return text

    def execute(self, pod: str, container: str, words: list[str]) -> str:
        """Return what a program in a pod prints; it must end by itself. Raises RefusedError."""
        from kubernetes.client import ApiClient, CoreV1Api  # noqa: PLC0415 (an extra)
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415
        from kubernetes.stream import stream  # noqa: PLC0415
        from websocket import WebSocketException  # noqa: PLC0415 (the client's)

        # A client of its own: while it waits, `stream` replaces how the client asks, for all threads.
        call = CoreV1Api(ApiClient(self._client.configuration)).connect_get_namespaced_pod_exec
        # Not on stderr: what a shell complains about is no content.
        options = {"container": container, "command": words, "stdout": True, "stderr": False, "_preload_content": False}
        try:
            running = stream(call, pod, self.namespace, **options, _request_timeout=_TIMEOUT[1])
            running.run_forever(timeout=_TIMEOUT[1])
            return str(running.read_stdout(timeout=0) or "")
        except (ApiException, WebSocketException, OSError) as error:
            raise RefusedError(getattr(error, "status", 0) or 0, f"exec in {pod}: {_reason(error)}") from error

    def log(self, namespace: str, pod: str, container: str, size: int, lines: int, *, previous: bool = False) -> str:
        """Return the end of what a container has printed, or the one before it; raise RefusedError."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        query: dict[str, str | int] = {"tailLines": lines}
        if container:
            query["container"] = container
        if previous:
            query["previous"] = "true"
        return self._call("GET", path, {"Accept": "*/*"}, query)[-size:]

    def items(self, path: str, *, metadata_only: bool = False, **query: str | int) -> list[dict[str, Any]]:
        """Return the objects of a list, page by page; raise RefusedError."""
        return list(self._pages(path, _METADATA if metadata_only else "application/json", query))

    def _pages(self, path: str, accept: str, query: dict[str, str | int]) -> Iterator[dict[str, Any]]:
        page = self.get(path, accept=accept, limit=_PAGE, **query)
        while isinstance(page, dict):
            yield from (each for each in page.get("items") or [] if isinstance(each, dict))
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return
            page = self.get(path, accept=accept, limit=_PAGE, **{**query, "continue": more})


def _reason(error: Exception) -> str:
    """Return the innermost reason of an error, which the client wraps several times."""
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 (an extra)

    while (inner := getattr(error, "reason", None) or error.__cause__) and isinstance(inner, Exception):
        error = inner
    # Without an answer its text is "(0)". The reason of a refused exec goes on with the headers and the answer.
    said = str(error.reason).split(" -+-+- ")[0] if isinstance(error, ApiException) else str(error).split("\n")[0]
    return " ".join(said.split()) or type(error).__name__


def _json(text: str) -> Json:
    try:
        return json_text.loads(text)
    except ValueError as error:
        raise RefusedError(0, "the answer is not JSON: is this the API server?") from error


def _message(text: str, status: int) -> str:
    try:
        found = json_text.loads(text).get("message")
    except (ValueError, AttributeError):
        found = None
    return str(found or f"the API server answers with status {status}")


def connect(*, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None) -> Cluster:
    """Return the cluster of a context, the current one by default; nothing is asked yet.

    The namespace is that of the context unless one is given. Raises InstallationError without the extra `live`, and
    ClusterError if the kubeconfig cannot be used.
    """
    try:
        from kubernetes.client import ApiClient, Configuration  # noqa: PLC0415 (an extra: 75 MB)
    except ImportError as error:
        raise InstallationError(
            "this command needs the Kubernetes client", fix="pip install 'grpo-charts[live]'"
        ) from error
    settings = Configuration()
    settings.retries = False
    # All questions go out at once; a pool that is smaller throws connections away, and says so on stderr.
    settings.connection_pool_maxsize = _CONNECTIONS
    where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    chosen, found = _choose(where, context)
    _load(settings, where, chosen)
    if not settings.verify_ssl:
        import urllib3  # noqa: PLC0415 (the client's)

        # The kubeconfig says so; else the client would say it for each question.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return Cluster(ApiClient(settings), chosen, namespace or found.get("namespace") or "default")


def _choose(where: str, context: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of a context of the kubeconfig, the current one by default."""
    from kubernetes.config.kube_config import KubeConfigMerger  # noqa: PLC0415 (an extra)

    with _usable(where):
        found = KubeConfigMerger(where).config
        if found is None:
            raise ClusterError(f"there is no kubeconfig: {where} does not exist", fix=kubectl.GET_KUBECONFIG)
        names = {each.value["name"]: each.value.get("context") or {} for each in found.value["contexts"]}
        chosen = context or found.value.get("current-context") or ""
    others = f"its contexts are {', '.join(names)}" if names else kubectl.GET_KUBECONFIG
    if not chosen:
        raise ClusterError(f"the kubeconfig {where} has no current context", fix=f"choose one by --context; {others}")
    if chosen not in names:
        raise ClusterError(f"the kubeconfig {where} has no context {chosen!r}", fix=others)
    return chosen, names[chosen]


def _load(settings: Configuration, where: str, context: str) -> None:
    """Put a context of the kubeconfig into the settings of the client; start its credential program if it has one."""
    from kubernetes.config import load_kube_config  # noqa: PLC0415 (an extra)

    _CREDENTIAL_ERRORS.last = ""
    logging.getLogger().addHandler(_CREDENTIAL_ERRORS)
    with _usable(where):
        # persist_config: a token that the client renews would be written into the user's file.
        load_kube_config(where, context, client_configuration=settings, persist_config=False)
    if _CREDENTIAL_ERRORS.last:
        raise ClusterError(
            f"the credential program of the context {context!r} has failed: {_CREDENTIAL_ERRORS.last}",
            fix="log in again (or install the program); kubectl get pods must work first",
        )


@contextlib.contextmanager
def _usable(where: str) -> Iterator[None]:
    """Raise ClusterError for what the client raises about a kubeconfig."""
    from kubernetes.config import ConfigException  # noqa: PLC0415 (an extra)

    try:
        yield
        return
    except (ConfigException, OSError, YAMLError) as error:
        # The client names an entry by its whole content, a user by the token.
        said, cause = " ".join(str(error).split()).partition("/{")[0], error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        said, cause = "it is not a kubeconfig", error
    raise ClusterError(
        f"the kubeconfig {where} cannot be used: {said}", fix="kubectl config get-contexts must work first"
    ) from cause
