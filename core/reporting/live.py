"""A web page that follows a run or a campaign, read only, served while it lasts."""

import hashlib
import ipaddress
import json
import socket
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from v6t.analysis.report.render import to_html
from v6t.analysis.report.run import build_document
from v6t.analysis.rundata import RunData
from v6t.base.errors import UsageError
from v6t.base.text import escape_controls
from v6t.benchmarks.registry import load_presentations
from v6t.core.reporting.write import REPORT_ERRORS
from v6t.core.runs import events
from v6t.core.runs.events import CurrentTrial, Listener
from v6t.drivers.device import ignore_message
from v6t.procedures.trial_runner import Progress

DEFAULT_PORT = 8219  # TCP port of the live page
HTTP_PORT = 80  # port that a browser leaves out of the Host header
VIEWER_TIMEOUT_S = 10.0  # reports are made only if the page was requested within this time
REPORT_INTERVAL_FACTOR = 20  # interval between reports, as a multiple of the time to make one
MAX_LISTED_STEPS = 8  # last steps that the page lists
MAX_CLIENTS = 16  # simultaneous connections
PAGE_HTML = Path(__file__).with_name("live.html").read_text("utf-8")
_PAGE_SCRIPT = PAGE_HTML.partition("<script>")[2].partition("</script>")[0]
CONTENT_SECURITY_POLICY = (  # allows only the page's script and requests to this server
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{b64encode(hashlib.sha256(_PAGE_SCRIPT.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_RESPONSE_HEADERS = {  # of every HTTP response
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_WAITING_PAGE = "<!DOCTYPE html><main><p>The report appears when the current point ends.</p></main>"


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``ADDRESS:PORT``, ``ADDRESS``, ``:PORT`` or an empty text; default to loopback.

    Raises:
        UsageError: the text has none of these forms.
    """
    in_brackets = f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
    try:
        parts = urlsplit(f"//{in_brackets}")
        address = ipaddress.ip_address(parts.hostname or "127.0.0.1")
        port = DEFAULT_PORT if parts.port is None else parts.port
        if parts.netloc != in_brackets or "@" in text:
            raise ValueError(text)
    except ValueError as exc:
        problem = f"--live takes ADDRESS:PORT, not '{text}'"
        hint = "an IP address, for example --live=127.0.0.1:8219; a run file precedes --live"
        raise UsageError(problem, hint, code="wrong-form") from exc
    return str(address), port


class LiveView(Listener):
    """Serves the live page of a running measurement or campaign.

    The port is open from the beginning; requests are answered after :meth:`__enter__`.

    Args:
        address: IP address and port; port 0 stands for any free port.
        path: directory of the run or the campaign.
        announce: prints the page's address, and a warning if other machines can read it.
        render: returns the report so far as HTML; None for that of the run that sends events.

    Raises:
        UsageError: the port is in use, or this machine does not have the address.
    """

    def __init__(
        self,
        address: tuple[str, int],
        path: Path,
        announce: Callable[[str], None] = ignore_message,
        render: Callable[[], str] | None = None,
    ) -> None:
        self._path, self._announce, self._render = path, announce, render or self._render_run
        self._get_data: Callable[[], RunData] | None = None
        self._run_name = ""
        self._ended_runs = self._version = 0
        self._progress: Progress | None = None
        self._steps: deque[str] = deque(maxlen=MAX_LISTED_STEPS)
        self._state = self._state_to_json("Starting.")
        self._report = _WAITING_PAGE
        self._viewed, self._next_report = -VIEWER_TIMEOUT_S, 0.0
        try:
            self._server = _Server(address, self)
        except OSError as exc:
            problem = f"cannot listen on {address[0]} port {address[1]}: {exc.strerror}"
            hint = "--live=127.0.0.1:0 takes any free port"
            raise UsageError(problem, hint, code="socket-failed") from exc
        host, port = map(str, self._server.server_address[:2])
        self.url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="v6t-live", daemon=True
        )
        if not ipaddress.ip_address(address[0]).is_loopback:
            problem = f"any host that reaches {self.url} can read the whole page"
            content = "results, settings, addresses, output of the device"
            announce(f"note: {problem}: {content}; without password or encryption")

    def __enter__(self) -> "LiveView":
        self._thread.start()
        self._announce(f"live: {self.url}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def on_run_start(self, name: str) -> None:
        """Prefix the displayed state with the name of the campaign's current run."""
        self._run_name = f"{name}: " if name else ""
        self._progress = None
        self._steps.clear()

    def on_run_data(self, get_data: Callable[[], RunData]) -> None:
        self._get_data = get_data

    def on_message(self, text: str) -> None:
        self._set_state(text)

    def on_step_start(self, progress: Progress) -> None:
        self._progress = progress
        offer = f"offering {progress.rate_fps:,.0f} {progress.unit}"
        self._set_state(f"{events.describe_position(progress)}: {offer}")

    def on_step_end(self, progress: Progress) -> None:
        self._steps.appendleft(escape_controls(events.describe_step(progress)))
        self._set_state(f"{events.describe_position(progress)}: over")

    def on_trial_start(self, current_trial: CurrentTrial) -> None:
        state = events.describe_trial(current_trial, self._progress, 0.0)
        self._set_state(f"{state}; about {events.format_duration(current_trial.remaining_s)} left")

    def show_progress(self, read_progress: Callable[[], tuple[str, int]]) -> None:
        """Show the progress of runs in other processes if the page is being viewed."""
        if time.monotonic() - self._viewed >= VIEWER_TIMEOUT_S:
            return
        state, ended_runs = read_progress()
        if ended_runs > self._ended_runs:
            self._ended_runs = ended_runs
            self._update_report()
        self._state = self._state_to_json(escape_controls(state))

    def find_page(self, path: str) -> tuple[str, str] | None:
        """Return the content type and the text for a URL path, or None if the path is unknown."""
        self._viewed = time.monotonic()
        pages = {
            "/": ("text/html", PAGE_HTML),
            "/now": ("application/json", self._state),
            "/report": ("text/html", self._report),
        }
        return pages.get(path)

    def _set_state(self, state: str) -> None:
        """Set the displayed state, and update the report unless that takes too much time."""
        began = time.monotonic()
        if began - self._viewed < VIEWER_TIMEOUT_S and began >= self._next_report:
            self._update_report()
            ended = time.monotonic()
            self._next_report = ended + (REPORT_INTERVAL_FACTOR - 1) * (ended - began)
        self._state = self._state_to_json(escape_controls(self._run_name + state))

    def _state_to_json(self, state: str) -> str:
        title = f"v6t: {self._path.resolve().name}"
        values = {"title": title, "now": state, "trials": [*self._steps], "version": self._version}
        return json.dumps(values)

    def _update_report(self) -> None:
        try:
            report = self._render()
        except REPORT_ERRORS:  # there are no results yet, or the report cannot be made
            report = _WAITING_PAGE
        if report != self._report:
            self._report = report
            self._version += 1

    def _render_run(self) -> str:
        if self._get_data is None:
            return _WAITING_PAGE
        # Drawing takes seconds: figures come with the finished report.
        return to_html(build_document(self._get_data(), load_presentations(), max_figures=0))


class _Server(ThreadingHTTPServer):
    """HTTP server that limits the number of simultaneous clients."""

    def __init__(self, address: tuple[str, int], view: LiveView) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.view = view
        self._free = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that closed its connection."""


class _Handler(BaseHTTPRequestHandler):
    """Request handler that serves the page, its state and the report, and rejects other hosts."""

    timeout = 5.0  # of a silent client [s]

    def do_GET(self) -> None:
        server = cast(_Server, self.server)
        if not is_own_host(self.headers.get("Host", ""), int(server.server_address[1])):
            self.send_error(421, "Misdirected Request")
            return
        if (page := server.view.find_page(self.path)) is None:
            self.send_error(404)
            return
        kind, data = page[0], page[1].encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _RESPONSE_HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the server's log, because the terminal shows the run."""

    def version_string(self) -> str:
        """Return only the name of the program, to hide its version from clients."""
        return "v6t"


def is_own_host(host: str, port: int) -> bool:
    """Return whether a Host header names an IP address or ``localhost``, and this port.

    A foreign page can let its own name resolve to this address (DNS rebinding), but a browser sends
    that name.
    """
    try:
        parts = urlsplit(f"//{host}")
        if parts.hostname != "localhost":
            ipaddress.ip_address(parts.hostname or "")
        return (HTTP_PORT if parts.port is None else parts.port) == port
    except ValueError:
        return False
