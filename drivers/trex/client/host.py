"""The worker's host: files of /proc and /sys, and the threads of a TRex server."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import socket
import subprocess
from typing import Any

from v6t.drivers.trex.client.service import RequestError
from v6t.drivers.trex.port_driver import find_driver

_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20}
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def examine_host(interfaces: list[str], port: int | None = None) -> dict[str, Any]:
    """Return facts about hugepages, programs, clock and interfaces of this host."""
    folders = sorted(glob.glob("/sys/kernel/mm/hugepages/hugepages-*"))
    pages = [[int(f.split("-")[-1][:-2]), int(read_file(f, "nr_hugepages") or 0)] for f in folders]
    mounts = re.findall(r" hugetlbfs \S*pagesize=(\d+)([KMG])", read_file("/proc/mounts"))
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    programs = {name: shutil.which(name, path=path) or "" for name in ("nft", "lspci", "modprobe")}
    return {
        "hugepages": pages,
        "hugetlbfs": [int(size) * _KIB[unit] for size, unit in mounts],
        "clock": read_file(CLOCK_SOURCE),
        "nft_problem": find_nft_problem(programs["nft"]),
        "served": port is not None and is_reachable(("127.0.0.1", port)),
        "interfaces": {name: _examine_interface(name) for name in interfaces},
        **programs,
    }


def find_nft_problem(nft: str) -> str:
    """Return why this user cannot use nftables; empty if it works or is not installed."""
    if not nft:
        return ""
    done = subprocess.run(  # the kernel lists them only to users that may write
        [nft, "list", "tables"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    first_line = done.stderr.decode("utf-8", "replace").split("\n")[0].strip()
    return (first_line or "it failed") if done.returncode else ""


def is_reachable(address: tuple[str, int]) -> bool:
    """Whether something listens on a TCP port."""
    with contextlib.suppress(OSError):
        socket.create_connection(address, timeout=2).close()
        return True
    return False


def place_threads(prefix: str, threads: dict[str, tuple[int, int | None]]) -> int:
    """Move a server's threads to CPUs; return how many were moved.

    A server with too few CPUs for its threads starts with all threads on one CPU.

    Args:
        prefix: argument that only this server has.
        threads: CPU and niceness by thread name in lower case; the key "" stands for all others.
    """
    processes = [e for e in os.listdir("/proc") if prefix in (read_server_arguments(e) or ())]
    moved = 0
    for entry, task in [(e, t) for e in processes for t in os.listdir(f"/proc/{e}/task")]:
        cpu, niceness = threads[""]
        try:
            with open(f"/proc/{entry}/task/{task}/comm") as handle:
                cpu, niceness = threads.get(handle.read().strip().lower(), threads[""])
            os.sched_setaffinity(int(task), [cpu])
            if niceness is not None:
                with contextlib.suppress(PermissionError):  # only root can lower it
                    os.setpriority(os.PRIO_PROCESS, int(task), niceness)
                # where the kernel groups threads by session, niceness counts within a session only
                with contextlib.suppress(OSError), open(f"/proc/{entry}/autogroup", "w") as group:
                    group.write(str(niceness))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has just ended
        except OSError as exc:
            raise RequestError("cpu", f"TRex cannot run on CPU {cpu}: {exc.strerror}") from exc
        moved += 1
    return moved


def is_local(server: tuple[str, int]) -> bool:
    """Whether a server, given by host and port, runs on this host."""
    try:
        connection = socket.create_connection(server, timeout=2)
    except OSError as exc:
        place, reason = ":".join(map(str, server)), exc.strerror or exc
        text = f"no connection to the TRex server at {place}: {reason}"
        raise RequestError("server", text) from exc
    with contextlib.closing(connection):
        return bool(connection.getsockname()[0] == connection.getpeername()[0])


def read_server_arguments(entry: str) -> list[str] | None:
    """Return the command line of a process, an entry of /proc, if it is a TRex server."""
    if not entry.isdigit():
        return None
    try:
        with open(f"/proc/{entry}/cmdline", "rb") as handle:
            words = handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return words if os.path.basename(words[0]).startswith("_t-rex-64") else None


def find_server(port: int) -> str | None:
    """Return the process ID of the TRex server that listens on a local TCP port, None if unknown.

    If another user's sockets are hidden, return the only TRex server that runs.
    """
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_file(table).splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{words[9]}]")
    servers = [entry for entry in os.listdir("/proc") if read_server_arguments(entry)]
    for entry in servers:
        with contextlib.suppress(OSError):
            if any(os.readlink(file) in sockets for file in glob.glob(f"/proc/{entry}/fd/*")):
                return entry
    return servers[0] if len(servers) == 1 else None


def _examine_interface(name: str) -> Any:
    """Return facts about a NIC, given by PCI address, or what its driver finds out otherwise."""
    pci = "/sys/bus/pci/devices/" + name
    if os.path.isdir(pci):
        driver, names = os.path.join(pci, "driver"), os.path.join(pci, "net")
        return {
            "driver": os.path.basename(os.readlink(driver)) if os.path.exists(driver) else "none",
            "numa": read_file(pci, "numa_node"),
            "names": sorted(os.listdir(names)) if os.path.isdir(names) else [],
        }
    return find_driver(name).examine(name)


def read_file(*path: str) -> str:
    """Read a small file without its end of line; empty if it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as handle:
            return handle.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
