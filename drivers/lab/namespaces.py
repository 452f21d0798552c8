"""The lab: two namespaces, tester and device, joined by two veth pairs.

::

    tester namespace          device namespace
      left  ================== left
      right ================== right

In loopback there is one pair, both ends in the tester's namespace. A device of several parts has
a namespace for each: the right interface of one is joined to the left one of the next. The
interfaces have no IPv6, ARP or addresses, and MAC addresses other than those in test frames: the
kernel's own stack drops these at once, and only packet sockets receive them.
"""

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.lab import netns
from v6t.drivers.lab.workers import Worker
from v6t.intent.device import Port

LEFT: Port = "left"
RIGHT: Port = "right"
End = tuple[Worker, Port]  # End of a cable: namespace and interface


class Holder:
    """Worker that holds a network namespace, new or of the process ``target``, and runs commands in it."""

    def __init__(self, target: int | None) -> None:
        self._sees_interfaces = False
        if target is None:
            netns.unshare(netns.CLONE_NEWNET)
        else:
            netns.enter(target)

    def idle(self, pipe: Connection) -> None:
        pipe.poll(None)

    def run(self, command: list[str], text: str = "") -> tuple[int, str]:
        """Run a command; return its status and output."""
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def set(self, values: Mapping[str, str]) -> None:
        """Write kernel settings below /proc/sys, except those that the kernel does not have."""
        for name, value in values.items():
            with contextlib.suppress(FileNotFoundError):
                (Path("/proc/sys") / name).write_text(value)

    def steer(self, mask: str) -> tuple[list[str], str]:
        """Set the receive packet steering (RPS) of this namespace's interfaces to a mask of CPUs.

        Queues that already have CPUs keep them.

        Returns:
            The interfaces that were steered, and why no more could be, or an empty text.
        """
        steered = []
        try:
            if not self._sees_interfaces:
                netns.show_in_sys()
                self._sees_interfaces = True
            for queue in sorted(Path("/sys/class/net").glob("*/queues/rx-*/rps_cpus")):
                if (interface := queue.parts[-4]) != "lo" and not queue.read_text().strip("0,\n"):
                    queue.write_text(mask)
                    steered.append(interface)
        except OSError as exc:
            return steered, exc.strerror or str(exc)
        return sorted(set(steered)), ""


class Lab:
    """The lab's namespaces and cables, which vanish with :meth:`close` or with this process.

    Args:
        mtu_left, mtu_right: MTUs of the two cables [octets].
        device_pids: for each part of the device from left to right, a process whose network
            namespace is the part's; None: a new one. Without a part the tester's ports are joined.
        mtus_between: MTUs of the cables between the parts [octets].

    Attributes:
        device: the only part of the device, or the leftmost; None in loopback.

    Raises:
        EnvironmentLacking: the kernel refuses namespaces or veth pairs.
    """

    def __init__(
        self,
        mtu_left: int,
        mtu_right: int,
        *,
        device_pids: Sequence[int | None] = (None,),
        mtus_between: Sequence[int] = (),
    ) -> None:
        self._holders: list[Worker] = []
        try:
            self.tester = self._start_namespace("tester namespace")
            self.devices = [self._start_namespace("device namespace", pid) for pid in device_pids]
            self.device = self.devices[0] if self.devices else None
            left, right = (self.tester, LEFT), (self.tester, RIGHT)
            cables = [(left, right, max(mtu_left, mtu_right))]
            if self.devices:
                cables = [(left, (self.devices[0], LEFT), mtu_left)]
                for (one, other), mtu in zip(pairwise(self.devices), mtus_between, strict=True):
                    cables.append(((one, RIGHT), (other, LEFT), mtu))
                cables.append((right, (self.devices[-1], RIGHT), mtu_right))
            _join(cables)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove namespaces, and with them all interfaces. May be called twice."""
        for holder in reversed(self._holders):
            holder.close()
        self._holders.clear()

    def steer(self, cpus: Sequence[int]) -> tuple[list[str], str]:
        """Have the kernel forward frames on these CPUs, whichever CPU sent them (RPS).

        A veth device hands a frame over on the CPU that sends it: without this the kernel's part
        of a device works on the sender's.

        Returns:
            The interfaces that were steered, and why no more could be, or an empty text.
        """
        bits = f"{sum(1 << cpu for cpu in set(cpus)):x}"
        # the kernel reads groups of 32 bits
        mask = ",".join(reversed([bits[max(0, n - 8) : n] for n in range(len(bits), 0, -8)]))
        steered: list[str] = []
        for holder in self._holders:
            names, why = holder.ask("steer", mask=mask)
            steered += [f"{holder.role}: {name}" for name in names]
            if why:
                return steered, why
        return steered, ""

    def _start_namespace(self, role: str, pid: int | None = None) -> Worker:
        """Start a worker in a new namespace, or in that of a process."""
        holder = Worker(role, Holder, target=pid)
        self._holders.append(holder)
        holder.answer()
        # set before any interface exists, so that none ever sends a frame
        settings = (f"net/ipv6/conf/{name}/disable_ipv6" for name in ("all", "default"))
        holder.ask("set", values=dict.fromkeys(settings, "1"))
        return holder


def _join(cables: Sequence[tuple[End, End, int]]) -> None:
    """Create cables with an MTU [octets] and bring their ends up, with one command per namespace."""
    groups: dict[Worker, list[str]] = {}
    up: dict[Worker, list[str]] = {}
    for (holder, name), (other, peer), mtu in cables:
        end = f"name {peer} mtu {mtu} netns {other.pid}"
        groups.setdefault(holder, []).append(f"link add {name} mtu {mtu} type veth peer {end}")
        for where, interface in ((holder, name), (other, peer)):
            up.setdefault(where, []).append(f"link set dev {interface} mtu {mtu} arp off up")
    # the first end of a cable is left of its second one, or the tester's: both exist when put up
    for holder, words in up.items():
        lines = groups.get(holder, []) + words
        status, output = holder.ask("run", command=["ip", "-batch", "-"], text="\n".join(lines))
        if status:
            problem = f"the lab's interfaces could not be made: {output.strip() or lines[0]}"
            hint = "the kernel needs veth support (module veth); `v6t doctor` shows more"
            raise EnvironmentLacking(problem, hint, code="lab-failed")
