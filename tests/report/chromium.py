"""Open pages in a headless Chromium and ask what a reader would see; it needs no library.

The browser is told what to do through two pipes, in the messages of the Chrome DevTools Protocol: JSON, each with a
zero byte at its end.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

NAMES = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
# The last two: nothing is asked of the network but for a page, and a small /dev/shm does.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)
PATIENCE = 120.0

Message = dict[str, Any]


def program() -> str:
    """Return the browser; without one the test is skipped, and CI says so."""
    for name in filter(None, (os.environ.get("CHROMIUM"), *NAMES)):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium was found, so no page was looked at: apt-get install chromium, or set CHROMIUM")


class Browser:
    """A running browser; a context manager that ends it."""

    def __init__(self, profile: Path) -> None:
        # The browser reads its third descriptor and writes its fourth.
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        words = [program(), *OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # Above 9, so that neither is one of the two; sh of Debian knows no such number, bash does.
        theirs = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (theirs_in, theirs_out)]
        command = ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash", *map(str, theirs), *words]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=theirs, stdin=quiet, stdout=quiet, stderr=quiet)
        for each in (theirs_in, theirs_out, *theirs):
            os.close(each)
        self._number, self._rest = 0, b""
        self.events: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._to)
            os.close(self._from)

    def call(self, method: str, session: str = "", **parameters: Any) -> Message:
        """Ask for one thing and return the answer; what is told meanwhile goes to `events`."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while (said := self._next()).get("id") != self._number:
            self.events.append(said)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        return dict(said["result"])

    def wait(self, method: str, session: str) -> None:
        """Wait for an event of a page."""
        while not any(each.get("method") == method and each.get("sessionId") == session for each in self.events):
            self.events.append(self._next())

    def _next(self) -> Message:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {PATIENCE:.0f} s")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise RuntimeError(f"the browser ended with exit code {self._process.wait()}")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    @contextmanager
    def page(self, file: Path, width: int, scheme: str = "light") -> Iterator[Page]:
        """Open a file in a window of this width, for a reader who likes it light or dark."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.call("Page.navigate", url=file.as_uri())
        self.wait("Page.loadEventFired", session)
        yield page
        self.call("Target.closeTarget", targetId=target)


class Page:
    """An open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> Message:
        """Ask the browser for one thing about this page."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, script: str) -> Any:
        """Return the value of an expression in JavaScript, when it is there if it is promised."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if about := answer.get("exceptionDetails"):
            raise RuntimeError(about.get("exception", {}).get("description", about["text"]))
        return answer["result"].get("value")

    def events(self, *methods: str) -> list[Message]:
        """Return what was told of this page so far."""
        return [
            each["params"]
            for each in self._browser.events
            if each.get("sessionId") == self._session and each.get("method") in methods
        ]

    def complaints(self) -> list[str]:
        """Return the errors and warnings of the console."""
        thrown = [str(each["exceptionDetails"]) for each in self.events("Runtime.exceptionThrown")]
        told = [
            each for each in self.events("Runtime.consoleAPICalled") if each["type"] in ("error", "warning", "assert")
        ]
        noted = [each["entry"] for each in self.events("Log.entryAdded")]
        return [*thrown, *map(str, told), *(str(each) for each in noted if each["level"] in ("error", "warning"))]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for."""
        return [each["request"]["url"] for each in self.events("Network.requestWillBeSent")]

    def picture(self, file: Path) -> None:
        """Write a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(data))
