"""A headless Chromium, driven through chromedriver's plain HTTP interface (W3C WebDriver)."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "no chromium with chromedriver on this machine"
PATIENCE = 30.0  # seconds that a page may load
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Browser:
    """One window."""

    def __init__(self, address: str, session: str) -> None:
        self._address = f"{address}/session/{session}"

    def open(self, path: Path) -> None:
        """Load a page anew, to its end: the driver may return before, where the page was open."""
        for address in ("about:blank", path.as_uri()):
            self._call("POST", "/url", {"url": address})
            ready = f"return location.href === {json.dumps(address)} && document.readyState"
            end = time.monotonic() + PATIENCE
            while self.run(ready) != "complete":
                if time.monotonic() > end:
                    raise TimeoutError(f"{address} is not loaded after {PATIENCE} s")
                time.sleep(0.01)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def screenshot(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._call("GET", "/screenshot"))

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        """Set the size of the viewport."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.devtools("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        """Ask for a light or dark page."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", {"features": [feature]})

    def keys(self, *names: str) -> None:
        """Press and release keys one after another."""
        actions = [{"type": kind, "value": n} for n in names for kind in ("keyDown", "keyUp")]
        self._call(
            "POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]}
        )

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call: kind 'browser' (console) or 'performance'."""
        return list(self._call("POST", "/se/log", {"type": kind}))

    def requests(self) -> list[str]:
        """Addresses that the page asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = [e for e in events if e["method"] == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in sent]

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return _request(method, self._address + path, body)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    assert CHROMIUM is not None
    assert DRIVER is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        _wait(address)
        made = _request("POST", f"{address}/session", {"capabilities": {"alwaysMatch": options}})
        try:
            yield Browser(address, made["sessionId"])
        finally:
            _request("DELETE", f"{address}/session/{made['sessionId']}", None)
    finally:
        driver.terminate()
        driver.wait(timeout=10)


def _wait(address: str) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError):
            _request("GET", f"{address}/status", None)
            return
        time.sleep(0.1)
    raise TimeoutError("chromedriver does not answer")


def _request(method: str, url: str, body: Any) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {url}: {error.read().decode()[:400]}") from None
