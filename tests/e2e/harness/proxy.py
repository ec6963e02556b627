"""A connection to an API server that goes wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.apiserver import ApiServer


@contextmanager
def stalling(server: ApiServer, work: Path, after: int) -> Iterator[Path]:
    """Give a kubeconfig whose connections pass `after` bytes of the answers on, and then nothing any more."""
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener, server, after, opened), daemon=True).start()
        settings = json.loads(server.audited.read_text())
        # kubectl would squeeze long lists into fewer bytes than short ones have.
        settings["clusters"][0]["cluster"]["disable-compression"] = True
        settings["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{listener.getsockname()[1]}"
        path = work / f"stalls-{after}.kubeconfig"
        path.write_text(json.dumps(settings))
        path.chmod(0o600)
        try:
            yield path
        finally:
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def accept(listener: socket.socket, server: ApiServer, after: int, opened: list[socket.socket]) -> None:
    """Connect each caller with the API server."""
    with suppress(OSError):
        while True:
            caller, _ = listener.accept()
            behind = socket.create_connection((server.ports.address, server.ports.api))
            opened += [caller, behind]
            threading.Thread(target=pump, args=(caller, behind, 2**60), daemon=True).start()
            threading.Thread(target=pump, args=(behind, caller, after), daemon=True).start()


def pump(source: socket.socket, target: socket.socket, limit: int) -> None:
    """Pass bytes on until the source ends or the limit is reached; then leave both open."""
    with suppress(OSError):
        while limit > 0 and (data := source.recv(min(limit, 65536))):
            target.sendall(data)
            limit -= len(data)
