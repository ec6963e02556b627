"""A kubectl of a few lines that stands in for the real one, and an API server behind its proxy."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Answer = Callable[[str], tuple[int, str]]

# It hangs in a credential program, which is a process of its own.
# What kubectl would ask the API server for, what it would start in the pod, and a way to the API server of `serving`.
KUBECTL = """\
#!/bin/sh
echo "$*" >> "$CLUSTER/calls"
[ "$HANGS" != "$1" ] || { sleep 3600 & echo $! >> "$CLUSTER/logins"; wait; }
if said=$(cat "$CLUSTER/refuses-$1" 2>/dev/null); then echo "$said" >&2; exit 1; fi
case $1 in
  config) case $* in *--minify*) cat "$CLUSTER/namespace" ;; *) cat "$CLUSTER/kubeconfig" ;; esac ;;
  proxy) cat "$CLUSTER/login" >&2 2>/dev/null
         for word; do case $word in --unix-socket=*) socket=${word#*=} ;; esac; done
         ln -s "$CLUSTER/api" "$socket"
         echo $$ >> "$CLUSTER/proxies"; echo "Starting to serve on $socket"; exec sleep 3600 ;;
  get) case $3 in
         *rayjobs/*) [ -e "$CLUSTER/rayjob.json" ] && exec cat "$CLUSTER/rayjob.json"
                     echo "Error from server (NotFound): rayjobs.ray.io not found" >&2; exit 1 ;;
         *pods*) cat "$CLUSTER/pods.json" ;;
         *) cat "$CLUSTER/pod-names" ;;
       esac ;;
  exec) while [ "$1" != -- ]; do shift; done; shift
        for word; do shift; case $word in /*) word="$CLUSTER$word" ;; esac; set -- "$@" "$word"; done
        if [ -e "$CLUSTER/on-the-way" ]; then sh "$CLUSTER/on-the-way" | "$@"; else "$@"; fi; code=$?
        [ -z "$STAYS" ] || sleep 600
        [ $code = 0 ] || { echo "command terminated with exit code $code" >&2; exit $code; } ;;
esac
"""


def put(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in on PATH; the files in the folder say what it does."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/kubectl").write_text(KUBECTL)
    (folder / "bin/kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTER", str(folder))
    for name in ("HANGS", "STAYS"):
        monkeypatch.delenv(name, raising=False)


def kubeconfig(server: str, user: dict[str, Any] | None = None, *, current: str = "c") -> str:
    """Return the kubeconfig of a context c in the namespace rl; JSON is YAML."""
    config = {
        "current-context": current,
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "rl"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "of-the-user"} if user is None else user}],
    }
    return json.dumps(config)


@contextlib.contextmanager
def serving(folder: Path, answer: Answer, user: dict[str, Any] | None = None) -> Iterator[None]:
    """Play an API server behind the stand-in's proxy: it answers each path as a function says."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            status, text = answer(self.path)
            # Who has waited long enough is gone.
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        # All questions come at once.
        request_queue_size = 64
        daemon_threads = True

    (folder / "kubeconfig").write_text(kubeconfig("http://played", user))
    # The path of a socket is short, that of a test is not.
    with tempfile.TemporaryDirectory() as short, Server(f"{short}/api", Handler) as server:
        (folder / "api").unlink(missing_ok=True)
        os.symlink(f"{short}/api", folder / "api")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
