"""What stands between a user and a TRex elsewhere, or its ports: for ``v6t doctor``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from v6t.drivers.tester_kind import Finding
from v6t.drivers.trex.channel import ClientWorker
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.server_config import is_pci
from v6t.profiles.errors import TesterError, V6tError

LOGIN_S = 20.0
PCI, NET = Path("/sys/bus/pci/devices"), Path("/sys/class/net")


def examine_remote(options: TrexOptions) -> Iterator[Finding]:
    """Login, installation and client on the host that ``ssh`` names."""
    if shutil.which("ssh") is None:
        yield "ssh", "missing", "no OpenSSH client here: apt-get install openssh-client"
        return
    if not options.trex_dir:
        yield "TRex", "missing", "ssh needs trex_dir: where TRex is on that host"
        return
    if options.ssh is None:
        return
    host = options.ssh.text
    try:
        remote = options.remote
        if remote is None:
            return
        words = remote.command(["test", "-e", f"{options.trex_dir}/t-rex-64"])
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LOGIN_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (V6tError, OSError, subprocess.TimeoutExpired) as exc:
        yield "ssh", "missing", f"{host}: {exc}"
        return
    if done.returncode == 255:
        said = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        yield "ssh", "missing", f"{host}: {said}; `ssh {host} true` must work unasked"
        return
    yield "ssh", "ok", f"logged in as {host}"
    if done.returncode:
        yield "TRex", "missing", f"there is no {options.trex_dir}/t-rex-64 on {host}"
        return
    yield "TRex", "ok", f"{host}:{options.trex_dir}"
    worker = ClientWorker(options.python or "python3", remote=remote)
    try:
        said_hello = worker.ask("hello", trex_dir=options.trex_dir, deadline_s=60)
    except TesterError as exc:
        yield (
            "TRex client",
            "missing",
            f"{exc.message}; name a Python 3.8 to 3.13 of that host with the option python",
        )
        return
    finally:
        worker.close()
    yield "TRex client", "ok", f"Python {said_hello['python']} there imports it"


def examine_interfaces(options: TrexOptions) -> Iterator[Finding]:
    """Whether the interfaces a server would be started with exist on this host."""
    for name in options.all_interfaces or ():
        what = f"interface {name}"
        if name.startswith("--vdev"):
            yield what, "ok", "made by TRex"
        elif is_pci(name):
            yield _pci(what, name, options.socket)
        else:
            yield _linux(what, name)


def _pci(what: str, name: str, socket: int) -> Finding:
    place = PCI / (name if name.count(":") == 2 else f"0000:{name}")
    if not place.exists():
        return what, "missing", "there is no such PCI device; `lspci` lists them"
    driver = place / "driver"
    bound = driver.resolve().name if driver.exists() else "none"
    node = _read(place / "numa_node")
    if node.isdigit() and int(node) != socket:
        return what, "note", f"driver {bound}, NUMA node {node}, but socket is {socket}"
    return what, "ok", f"driver {bound}; TRex binds it as its wrapper t-rex-64 does"


def _linux(what: str, name: str) -> Finding:
    if not (NET / name).exists():
        return what, "missing", "there is no such interface; `ip -br link` lists them"
    if _read(NET / name / "operstate") == "down":
        return what, "note", f"it is down: ip link set {name} up, and check the cable"
    return what, "ok", "through af_packet: one data path core"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
