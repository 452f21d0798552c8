"""What the worker sees of its host, and sets there: files of /proc and /sys, threads of a TRex server.

Handed over with :mod:`v6t.drivers.trex.client_worker`: old syntax, the standard library only.
"""

import contextlib
import os
import shutil
import socket
import subprocess

from v6t.drivers.trex.service_worker import Trouble

FIRST = -20
"""Niceness of threads that frames wait for."""
HUGEPAGES = "/sys/kernel/mm/hugepages"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def machine(interfaces, port=None):
    """What of this host decides whether a server can be started: nothing of TRex is needed.

    interfaces: PCI addresses (with domain) and names.
    port: TCP port of a server that may run here.
    """
    pages = []
    for entry in sorted(os.listdir(HUGEPAGES)) if os.path.isdir(HUGEPAGES) else []:
        place = os.path.join(HUGEPAGES, entry)
        pages.append([int(entry.split("-")[1][:-2]), int(read(place, "nr_hugepages") or 0)])
    mounted = []
    for line in read("/proc/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and words[2] == "hugetlbfs":
            size = [o[9:] for o in words[3].split(",") if o.startswith("pagesize=")]
            mounted.append([words[1], kib(size[0]) if size else 0])

    def where(program):
        return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or ""

    return {
        "hugepages": pages,
        "hugetlbfs": mounted,
        "clock": read(CLOCK),
        "nft": where("nft"),
        "nft_trouble": trouble_of(where("nft")),
        "served": port is not None and answers(port),
        "lspci": where("lspci"),
        "modprobe": where("modprobe"),
        "interfaces": {name: interface_facts(name) for name in interfaces},
    }


def trouble_of(nft):
    """Why nftables cannot be used by who runs this; empty: it can, or it is not there."""
    if not nft:
        return ""
    done = subprocess.run(  # the kernel lists them to those alone who may write
        [nft, "list", "tables"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    said = done.stderr.decode("utf-8", "replace").split("\n")[0].strip()
    return (said or "it failed") if done.returncode else ""


def answers(port):
    """Whether something listens on a TCP port of this host."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
        return True
    return False


def place(prefix, master, latency, sending):
    """Move the threads of the server with this prefix to CPUs; how many were moved.

    A server with too few CPUs for its threads starts with all of them on one. Those that send and
    receive go before whatever else wants these CPUs, v6t's own programs among it.
    """
    processes = [e for e in os.listdir("/proc") if prefix in (server_words(e) or ())]
    moved = 0
    for entry, task in [(e, t) for e in processes for t in os.listdir("/proc/%s/task" % e)]:
        cpu = master
        try:
            with open("/proc/%s/task/%s/comm" % (entry, task)) as handle:
                name = handle.read().lower().split()
            if name[:3] == ["trex", "dp", "core"]:
                cpu = sending[(int(name[3]) - 1) % len(sending)]
            elif name == ["trex", "rx"]:
                cpu = latency
            os.sched_setaffinity(int(task), [cpu])
            if name[:2] in (["trex", "dp"], ["trex", "rx"]):
                first(entry, task)
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has just ended
        except OSError as exc:
            raise Trouble("cpu", "TRex cannot run on CPU %d: %s" % (cpu, exc.strerror))
        moved += 1
    return moved


def first(process, task):
    """Have a thread go before others of its session, and its session before others; as root."""
    with contextlib.suppress(PermissionError):  # it is only slower then
        os.setpriority(os.PRIO_PROCESS, int(task), FIRST)
    # where the kernel groups threads by their sessions, niceness counts within a session only
    with contextlib.suppress(OSError), open("/proc/%s/autogroup" % process, "w") as group:
        group.write(str(FIRST))


def addresses_of(server):
    """This end's address and the other's, of a connection to the server."""
    with contextlib.closing(socket.create_connection(server, timeout=2)) as way:
        return way.getsockname()[0], way.getpeername()[0]


def server_words(entry):
    """Command line of the TRex server behind an entry of /proc; None: it is another one's."""
    if not entry.isdigit():
        return None
    try:
        with open("/proc/%s/cmdline" % entry, "rb") as handle:
            words = handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return words if os.path.basename(words[0]).startswith("_t-rex-64") else None


def server_on(port):
    """Process of the TRex server that listens on a TCP port here; None: nobody can tell.

    Whose sockets are another user's is not told: then it is the only server there is.
    """
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                sockets.add("socket:[%s]" % words[9])
    servers = [entry for entry in os.listdir("/proc") if server_words(entry)]
    for entry in servers:
        files = "/proc/%s/fd" % entry
        with contextlib.suppress(OSError):
            if any(os.readlink(os.path.join(files, one)) in sockets for one in os.listdir(files)):
                return entry
    return servers[0] if len(servers) == 1 else None


def interface_facts(name):
    """Of a NIC by PCI address, or of an interface of Linux; nothing if it is not there."""
    pci, net = "/sys/bus/pci/devices/" + name, "/sys/class/net/" + name
    if os.path.isdir(pci):
        driver, own = os.path.join(pci, "driver"), os.path.join(pci, "net")
        return {
            "driver": os.path.basename(os.readlink(driver)) if os.path.exists(driver) else "none",
            "numa": read(pci, "numa_node"),
            "names": sorted(os.listdir(own)) if os.path.isdir(own) else [],
        }
    return {"state": read(net, "operstate")} if os.path.exists(net) else None


def kib(text):
    """A page size as mount options have it, in KiB."""
    return int(text[:-1]) * {"K": 1, "M": 1024, "G": 1024 * 1024}[text[-1]]


def read(*path):
    """A small file's text without its end of line; empty if it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as handle:
            return handle.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
