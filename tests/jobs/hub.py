"""A Hub on this machine: the few routes that fetching needs, for the real huggingface_hub."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Repository:
    """Commits and branches; `gated` and `private` ones want the token that may read them."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    def push(self, files: dict[str, bytes], branch: str = "main") -> str:
        commit = hashlib.sha256(repr((sorted(files.items()), len(self.commits))).encode()).hexdigest()[:40]
        self.commits[commit] = files
        self.branches[branch] = commit
        return commit


@dataclass
class Hub:
    """What the Hub has, whom it lets in, and what it was asked."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    tokens: dict[str, bool] = field(default_factory=dict)  # token: whether its account accepted every licence
    requests: list[str] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)  # answers for the next requests

    def add(self, name: str, files: dict[str, bytes], **options: Any) -> Repository:
        """Make a repository: "google/gemma" or "datasets/openai/gsm8k"."""
        repository = Repository(**options)
        repository.push(files)
        self.repositories[name] = repository
        return repository

    def refusal(self, name: str, token: str) -> tuple[int, str, str] | None:
        """Return status, error code and message as the Hub does: what may not be seen is not found."""
        repository = self.repositories.get(name)
        if token and token not in self.tokens:
            return 401, "", "Invalid credentials in Authorization header"
        if repository is None or (repository.private and not token):
            return (404 if token else 401), "RepoNotFound", "Repository not found"
        if repository.gated and not self.tokens.get(token):
            return (403 if token else 401), "GatedRepo", f"Access to model {name} is restricted"
        return None


def api_answer(repository: Repository, commit: str) -> bytes:
    files = repository.commits[commit]
    siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
    return json.dumps({"id": "a/b", "sha": commit, "siblings": siblings, "private": False, "tags": []}).encode()


def tree_answer(repository: Repository, commit: str, under: str) -> bytes:
    """List the files below a folder, as the data set library asks for them."""
    prefix = f"{under}/" if under else ""
    files = {name: content for name, content in repository.commits[commit].items() if name.startswith(prefix)}
    entries = [
        {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha256(content).hexdigest()[:40]}
        for name, content in files.items()
    ]
    folders = {name.rpartition("/")[0] for name in files} - {"", under}
    entries += [{"type": "directory", "path": name, "size": 0, "oid": "0" * 40} for name in sorted(folders)]
    return json.dumps(entries).encode()


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_GET(self) -> None:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if hub.faults:
                self.answer(hub.faults.pop(0))
                return
            if path == "/api/whoami-v2":
                self.answer(200 if token in hub.tokens else 401)
                return
            if found := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
                kind, name, revision = found[1], found[2], found[4] or "main"
                name = name if kind == "models" else f"datasets/{name}"
                revision, _, under = (revision, "", "") if found[3] != "tree" else revision.partition("/")
            elif found := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
                name, revision = found[1], found[2]
            else:
                self.answer(404)
                return
            if refusal := hub.refusal(name, token):
                self.answer(refusal[0], X_Error_Code=refusal[1], X_Error_Message=refusal[2])
                return
            repository = hub.repositories[name]
            commit = repository.branches.get(revision, revision)
            if commit not in repository.commits:
                self.answer(404, X_Error_Code="RevisionNotFound")
            elif "/tree/" in path:
                self.answer(200, tree_answer(repository, commit, under), Content_Type="application/json")
            elif path.startswith("/api/"):
                self.answer(200, api_answer(repository, commit), Content_Type="application/json")
            elif (content := repository.commits[commit].get(found[3])) is None:
                self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            else:
                self.answer(200, content, X_Repo_Commit=commit, ETag=f'"{hashlib.sha256(content).hexdigest()}"')

        do_HEAD = do_GET  # noqa: N815

    return Handler


@contextmanager
def serve(address: str = "127.0.0.1") -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer((address, 0), handler(hub))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hub.url = f"http://{address}:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
