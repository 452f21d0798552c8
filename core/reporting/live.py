"""A run or a campaign watched from a browser: its page, read only, served for as long as it lasts."""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from v6t.base.errors import UsageError
from v6t.base.text import escape_controls
from v6t.core.reporting.live_page import PAGE, POLICY
from v6t.core.reporting.write import UNREPORTED, load
from v6t.core.runs.events import Activity, Listener
from v6t.core.runs.wording import describe_activity, describe_place, describe_step, duration
from v6t.drivers.device import ignore_message
from v6t.procedures.trial_runner import Progress

PORT = 8219
"""Where nothing else is said."""
LOOKED_S = 10.0
"""Somebody looks if the page was asked for within this time; it asks every 2 s."""
SHARE = 20
"""Making the report takes at most one part in so many of the run's time."""
TRIALS = 8
"""Last ones that are listed."""
MOST_CLIENTS = 16
_PATIENCE_S = 5.0
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_WAITING = (
    "<!DOCTYPE html><main><p>The report appears when what is measured now is over.</p></main>"
)


def address_of(text: str) -> tuple[str, int]:
    """Address and port of ``ADDRESS:PORT``, ``ADDRESS``, ``:PORT`` or nothing (loopback).

    Raises:
        UsageError: it is neither.
    """
    host, port = text, str(PORT)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port if closed else ""
    elif text.count(":") <= 1:
        host, _, port_text = text.partition(":")
        port = port_text or port
    try:
        where = ipaddress.ip_address(host or "127.0.0.1")
        number = int(port)
        if not 0 <= number <= 65535:
            raise ValueError(port)
    except ValueError as exc:
        raise UsageError(
            f"--live takes ADDRESS:PORT, not '{text}'",
            "an IP address, for example --live=127.0.0.1:8219; a run file stands before --live",
            code="wrong-form",
        ) from exc
    return str(where), number


class LiveView(Listener):
    """Serves the page of a run or a campaign while it is carried out."""

    def __init__(
        self,
        address: tuple[str, int],
        path: Path,
        announce: Callable[[str], None] = ignore_message,
        page: Callable[[Path], str] | None = None,
    ) -> None:
        """Listen; nothing is answered before :meth:`__enter__`.

        Args:
            address: IP address and port; 0: any that is free.
            path: of the directory of the run, or of the campaign.
            announce: prints the page's address, and a warning if others can read it.
            page: makes the report so far of that directory; None: that of a run.

        Raises:
            UsageError: the port is taken, or the address is none of this machine.
        """
        self._path, self._announce, self._page = path, announce, page or _of_run
        self._about = ""
        self._ended = 0
        self._version = 0
        self._progress: Progress | None = None
        self._steps: deque[str] = deque(maxlen=TRIALS)
        self._state = self._state_json("It begins.")
        self._report = _WAITING
        self._looked = -LOOKED_S
        self._next = 0.0
        self._serves = False
        try:
            self._server = _Server(address, self)
        except OSError as exc:
            raise UsageError(
                f"cannot listen on {address[0]} port {address[1]}: {exc.strerror}",
                "--live=127.0.0.1:0 takes any free port",
                code="socket-failed",
            ) from exc
        self.url = f"http://{_authority(*self._server.server_address[:2])}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="v6t-live", daemon=True
        )
        if not ipaddress.ip_address(address[0]).is_loopback:
            announce(
                f"note: everybody who reaches {self.url} can read all of it: results, settings, "
                "addresses, what the device said of itself; without password or encryption"
            )

    def __enter__(self) -> LiveView:
        self._thread.start()
        self._serves = True
        self._announce(f"live: {self.url}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        if self._serves:
            self._server.shutdown()
            self._thread.join()
        self._serves = False
        self._server.server_close()

    def on_run_start(self, name: str) -> None:
        """Prefix what follows with the name of a run of the campaign."""
        self._about = f"{name}: " if name else ""
        self._progress = None
        self._steps.clear()

    def on_message(self, text: str) -> None:
        self._show(escape_controls(text))

    def on_step_start(self, progress: Progress) -> None:
        self._progress = progress
        self._show(f"{describe_place(progress)}: offering {progress.rate_fps:,.0f} {progress.unit}")

    def on_step_end(self, progress: Progress) -> None:
        self._steps.appendleft(escape_controls(describe_step(progress)))
        self._show(f"{describe_place(progress)}: over")

    def on_trial_start(self, activity: Activity) -> None:
        left = f"; about {duration(activity.left_s)} left"
        self._show(escape_controls(describe_activity(activity, self._progress, 0.0) + left))

    def glance(self, seen: Callable[[], tuple[str, int]]) -> None:
        """Report what goes on elsewhere, and how many runs are over; asked only while somebody looks."""
        if time.monotonic() - self._looked >= LOOKED_S:
            return
        now, ended = seen()
        if ended > self._ended:
            self._ended = ended
            self._make()
        self._state = self._state_json(escape_controls(now))

    def answer(self, path: str) -> tuple[str, str] | None:
        """Type and text of what is asked for; None: there is no such thing."""
        self._looked = time.monotonic()
        pages: Mapping[str, tuple[str, str]] = {
            "/": ("text/html", PAGE),
            "/now": ("application/json", self._state),
            "/report": ("text/html", self._report),
        }
        return pages.get(path)

    def _show(self, now: str) -> None:
        began = time.monotonic()
        if began - self._looked < LOOKED_S and began >= self._next:
            self._make()
            ended = time.monotonic()
            self._next = ended + (SHARE - 1) * (ended - began)
        self._state = self._state_json(self._about + now)

    def _state_json(self, now: str) -> str:
        title = f"v6t: {self._path.resolve().name}"
        state = {"title": title, "now": now, "trials": [*self._steps], "version": self._version}
        return json.dumps(state)

    def _make(self) -> None:
        try:
            report = self._page(self._path)
        except UNREPORTED:  # it is not there yet, or cannot be made: that costs no run
            report = _WAITING
        if report != self._report:
            self._report = report
            self._version += 1


def _of_run(path: Path) -> str:
    from v6t.analysis.report.render import to_html
    from v6t.analysis.report.run import build
    from v6t.benchmarks.registry import presentations

    # drawing takes seconds: figures come with the finished report
    return to_html(build(load(path), presentations(), most_figures=0))


class _Server(ThreadingHTTPServer):
    """Few clients at a time: whoever comes when there are many is turned away."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], view: LiveView) -> None:
        self.address_family = _family(address[0])
        self.view = view
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is one left."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    """Three texts, for whoever asks for them by this server's own address."""

    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        """One of the texts."""
        self._give(body=True)

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._give(body=False)

    def _give(self, *, body: bool) -> None:
        server = cast(_Server, self.server)
        if not is_own(self.headers.get("Host", ""), int(server.server_address[1])):
            self.send_error(421, "Misdirected Request")  # a name that leads here is not ours
            return
        page = server.view.answer(self.path)
        if page is None:
            self.send_error(404)
            return
        kind, text = page
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the run."""

    def version_string(self) -> str:
        """No versions for strangers."""
        return "v6t"


def is_own(host: str, port: int) -> bool:
    """Whether a Host header is an IP address or ``localhost``, with this port.

    A page from elsewhere can make its own name lead to this address and then read what is served
    here; it cannot make a browser send another name than its own.
    """
    name, _, port_text = host.rpartition(":")
    if port_text != str(port):
        return False
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _authority(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _family(address: str) -> Any:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
