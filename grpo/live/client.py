"""Read objects from the API server, with the user's kubeconfig and rights; kubectl talks to it.

No other module of this package talks to a cluster.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

from grpo.helm import kubeconfig as kubeconfigs
from grpo.helm import kubectl, proxy
from grpo.helm.kubeconfig import Context
from grpo.helm.proxy import Answer, Proxy
from postrender import json_text
from postrender.errors import ClusterError
from postrender.types import Json

# Seconds between two pieces of an answer.
_TIMEOUT_SECONDS: Final = 6.0
# Objects in one answer; the API server pages what is longer.
_PAGE: Final = 500
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_NOT_FOUND: Final = 404
_OK: Final = (200, 201)
# What kubectl answers when the credential program of the kubeconfig has failed.
_NO_CREDENTIALS: Final = "getting credentials: "


class RefusedError(Exception):
    """An object or list could not be read: `status` is the HTTP status, or 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_unknown(self) -> bool:
        """Return whether the API server has no such object or kind."""
        return self.status == _NOT_FOUND


class Cluster:
    """One context's API server; `namespace` is the namespace to read."""

    def __init__(self, server: Proxy, programs: kubectl.Programs, context: str, namespace: str) -> None:
        self._server, self._programs = server, programs
        self.context = context
        self.namespace = namespace

    def get(self, path: str, *, accept: str = "application/json", **query: str | int) -> Json:
        """Return the object at an API path; raise RefusedError if it cannot be read."""
        return _json(self._call("GET", path, {"Accept": accept}, query))

    def review(self, attributes: dict[str, str]) -> dict[str, Any]:
        """Return whether the user may do something; raise RefusedError if the query fails. A review is not stored."""
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
        where = f"{quote(path)}?{urlencode(query)}" if query else quote(path)
        try:
            answer = self._server.ask(method, where, headers, _TIMEOUT_SECONDS, body)
        except (OSError, http.client.HTTPException) as error:
            raise RefusedError(0, _reason(error)) from error
        if answer.status not in _OK:
            raise RefusedError(answer.status, _message(answer))
        return answer.text

    def execute(self, pod: str, container: str, words: list[str]) -> str:
        """Return the output of a program in a pod, which must end by itself; raise RefusedError if it cannot run."""
        try:
            return self._programs.output(self.namespace, pod, container, words, _TIMEOUT_SECONDS)
        except ClusterError as error:
            raise RefusedError(0, f"exec in {pod}: {error.message}") from error

    def log(self, namespace: str, pod: str, container: str, size: int, lines: int, *, previous: bool = False) -> str:
        """Return the end of a container's log, or of its predecessor's; raise RefusedError if it cannot be read."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        query: dict[str, str | int] = {"tailLines": lines}
        if container:
            query["container"] = container
        if previous:
            query["previous"] = "true"
        return self._call("GET", path, {"Accept": "*/*"}, query)[-size:]

    def items(self, path: str, *, metadata_only: bool = False, **query: str | int) -> list[dict[str, Any]]:
        """Return a list's objects, fetched page by page; raise RefusedError if they cannot be read."""
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
    said = (isinstance(error, OSError) and error.strerror) or str(error)
    return " ".join(said.split()) or type(error).__name__


def _json(text: str) -> Json:
    try:
        return json_text.loads(text)
    except ValueError as error:
        raise RefusedError(0, "the answer is not JSON: is this the API server?") from error


def _message(answer: Answer) -> str:
    """Return why an answer is none: kubectl says in plain text that it has got none itself."""
    try:
        found = json_text.loads(answer.text).get("message")
    except (ValueError, AttributeError):
        found = " ".join(answer.text.split()) if answer.kind == "text/plain" else None
    return str(found or f"the API server answers with status {answer.status}")


@contextlib.contextmanager
def connect(
    *, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None
) -> Iterator[Cluster]:
    """Give the cluster of a context, the current one by default, and end what runs for it at the end of the block.

    The namespace is that of the context unless one is given. Raises ClusterError if kubectl cannot run, or the
    kubeconfig cannot be used.
    """
    chosen = kubeconfigs.choose(kubeconfig, context)
    with proxy.running(chosen.flags) as server, kubectl.Programs(chosen.flags) as programs:
        if chosen.has_program:
            _log_in(server, chosen)
        yield Cluster(server, programs, chosen.name, namespace or chosen.namespace)


def _log_in(server: Proxy, context: Context) -> None:
    """Ask one question, for which the credential program runs; all others come after it.

    A login may wait for a person, so it is waited for. Raises ClusterError if it fails, or if the API server is silent
    when nothing logs in any more.
    """
    said, silent = "", 0
    while not said:
        try:
            said = _message(server.ask("GET", "/version", {}, _TIMEOUT_SECONDS / 2))
        except TimeoutError as error:
            silent = 0 if server.logs_in() else silent + 1
            if silent > 1:
                raise nothing_read(context.name, f"no answer within {_TIMEOUT_SECONDS:.0f} s") from error
        except (OSError, http.client.HTTPException):
            return
    if said.startswith(_NO_CREDENTIALS):
        said = ": ".join(filter(None, (said.removeprefix(_NO_CREDENTIALS), server.login_said())))
        raise ClusterError(
            f"the credential program of the context {context.name!r} has failed: {said}",
            fix="log in again (or install the program); kubectl get pods must work first",
        )


def nothing_read(context: str, said: str) -> ClusterError:
    """Return the error for an API server that has answered nothing."""
    return ClusterError(
        f"nothing can be read from the API server of the context {context!r}: {said}",
        fix="log in again, or choose another cluster with --context; kubectl get pods must work first",
    )
