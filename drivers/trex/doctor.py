"""What stands between a user and a TRex run, each finding with its fix: for ``v6t doctor``."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from v6t.base.errors import EnvironmentLacking, TesterError, UsageError, V6tError
from v6t.drivers.tester_kind import Finding, State
from v6t.drivers.trex.channel import ClientWorker
from v6t.drivers.trex.installation import Installation, find, find_interpreter
from v6t.drivers.trex.machine import examine_machine
from v6t.drivers.trex.options import TrexOptions

_IMPOSTORS = {
    "trex": "is the template tool of that name on PyPI and hides TRex's client: pip uninstall trex",
    "trex-stl-lib": "is a copy of TRex's client of 2019 on PyPI, unusable with TRex v3: "
    "pip uninstall trex-stl-lib",
}
_ONE_CORE = {"--software": "counting by trailer", "--hdrh": "delays"}
_PROBE = "import importlib.metadata as m, sys; m.version(sys.argv[1])"


def examine(options: TrexOptions) -> Iterator[Finding]:
    """Findings in the order in which they matter."""
    yield from impostors()
    try:
        installation = find(options.trex_dir)
    except UsageError as exc:
        yield "TRex", "missing", f"{exc.message}; {exc.hint}"
        return
    if installation is None:
        yield (
            "TRex",
            "missing" if options != TrexOptions() else "note",
            "none found (trex_dir, TREX_DIR, /opt/trex/v*); the embedded lab needs none",
        )
        return
    yield "TRex", "ok", f"{installation.path}, version {installation.version}"
    here = ClientWorker(sys.executable)
    try:
        yield from examine_machine(here, options)
    finally:
        here.close()
    try:
        python, hello = find_interpreter(installation, options.python)
    except EnvironmentLacking as exc:
        yield "TRex client", "missing", f"{exc.message}; {exc.hint}"
        return
    yield "TRex client", "ok", f"imported by {python} (Python {hello['python']})"
    if python != sys.executable:
        yield from impostors(python)
    yield from _server(installation, python, options)


def impostors(python: str = "") -> Iterator[Finding]:
    """Packages of an interpreter that look like TRex's client and are not.

    Args:
        python: another interpreter; empty: this one.
    """
    for name, text in _IMPOSTORS.items():
        if python:
            done = subprocess.run([python, "-c", _PROBE, name], capture_output=True, check=False)
            present = done.returncode == 0
        else:
            try:
                distribution(name)
            except PackageNotFoundError:
                present = False
            else:
                present = True
        if present:
            where = f" of {python}" if python else ""
            yield f"package {name}", "note", f"{name}{where} {text}"


def _server(installation: Installation, python: str, options: TrexOptions) -> Iterator[Finding]:
    where = f"{options.server}:{options.rpc_port}"
    try:
        socket.create_connection((options.server, options.rpc_port), timeout=2).close()
    except OSError as exc:
        yield "TRex server", "note", f"none answers at {where} ({exc.strerror}): v6t starts one"
        return
    worker = ClientWorker(python)
    try:
        worker.ask("hello", trex_dir=str(installation.path), deadline_s=60)
        facts = worker.ask(
            "connect",
            server=options.server,
            rpc_port=options.rpc_port,
            pub_port=options.pub_port,
            timeout_s=3,
        )
        words = worker.ask("server_flags")
    except (TesterError, V6tError) as exc:
        yield (
            "TRex server",
            "missing",
            f"{where} answers, but not this client: {exc.message}; client and server must be of "
            "one installation",
        )
        return
    finally:
        worker.close()
    yield from describe_server(where, facts)
    if words is not None:
        yield from _mode(words, _cores(facts) > 1)


def describe_server(where: str, facts: dict[str, Any]) -> Iterator[Finding]:
    """Findings about a server from what it says of itself."""
    version = facts.get("version") or {}
    mode = version.get("mode", "unknown")
    state: State = "ok" if mode == "STL" else "missing"
    fix = "" if mode == "STL" else "; v6t needs the stateless mode: restart it without --astf"
    cores = facts.get("dp_core_count")
    yield (
        "TRex server",
        state,
        f"{where}, {version.get('version', 'version unknown')}, mode {mode}, "
        f"{cores} data path core{'s' if cores != 1 else ''}{fix}",
    )
    if _cores(facts) > 1:
        yield (
            "counting",
            "note",
            "several data path cores: frames are counted by port counters; delays are those of a "
            "stream that one of them stamps, with memif or --software; `-c 1 --software --hdrh` counts "
            "by trailer",
        )
    for port in facts.get("port_info") or []:
        owner = port.get("owner")
        link = port.get("link")
        numa = port.get("numa")
        text = f"{port.get('driver')}, {port.get('hw_mac')}, link {link}"
        text += f", {port.get('speed')} Gbit/s"
        text += f", NUMA node {numa}" if isinstance(numa, int) and numa >= 0 else ""
        if owner:
            text += f"; taken by {owner}: wait, or force: true"
        if link == "DOWN":
            text += "; no link: check cable and device"
        bad: State = "missing" if link == "DOWN" else "note" if owner else "ok"
        yield f"port {port.get('index')}", bad, text


def _cores(facts: dict[str, Any]) -> int:
    """Data path cores that send on one port."""
    return int(facts.get("dp_core_count_per_port") or facts.get("dp_core_count") or 1)


def _mode(words: Sequence[str], several: bool) -> Iterator[Finding]:
    """Whether a server was started so that delays and trailers work.

    Args:
        words: its command line.
        several: it has several data path cores, whose histograms TRex does not add up anyway.
    """
    wanted = {"--software": "comparing frames and delays"} if several else _ONE_CORE
    for flag, what in wanted.items():
        if flag in words:
            yield flag, "ok", f"{what} possible"
        else:
            yield flag, "note", f"not given: no {what}; restart the server with {flag}"
