"""The lab: two namespaces, tester and device, joined by two veth pairs.

::

    tester namespace          device namespace
      left  ================== left
      right ================== right

In loopback there is one pair, both ends in the tester's namespace. A device of several parts has
a namespace for each: the right interface of one is joined to the left one of the next. The
interfaces are mute: no IPv6, no ARP, no addresses, and MAC addresses other than those in test
frames, so that the kernel's own stack drops these at once and only packet sockets see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.lab.channel import Worker
from v6t.drivers.lab.worker import Holder
from v6t.intent.device import Port

LEFT: Port = "left"
RIGHT: Port = "right"
End = tuple[Worker, Port]
"""A namespace, and the name of an interface in it."""


class Lab:
    """Namespaces and cables; everything vanishes with :meth:`close` or with this process."""

    def __init__(
        self,
        mtu_left: int,
        mtu_right: int,
        *,
        loopback: bool = False,
        device_pids: Sequence[int | None] = (None,),
        mtus_between: Sequence[int] = (),
    ) -> None:
        """Build it.

        Args:
            mtu_left: MTU of the left cable [octets].
            mtu_right: MTU of the right one.
            loopback: join the tester's two ports directly.
            device_pids: for each part of the device from left to right, a process whose network
                namespace is the part's; None: a new one.
            mtus_between: MTUs of the cables between them [octets].

        Raises:
            EnvironmentLacking: the kernel refuses namespaces or veth pairs.
        """
        self.loopback = loopback
        self._holders: list[Worker] = []
        try:
            self.tester = self._namespace("tester namespace")
            pids = () if loopback else device_pids
            self.devices = [self._namespace("device namespace", pid) for pid in pids]
            self.device = self.devices[0] if self.devices else None
            """The only part of the device, or the leftmost; None in loopback."""
            left = (self.tester, LEFT)
            if loopback:
                _join([(left, (self.tester, RIGHT), max(mtu_left, mtu_right))])
            else:
                cables = [(left, (self.devices[0], LEFT), mtu_left)]
                for (one, other), mtu in zip(pairwise(self.devices), mtus_between, strict=True):
                    cables.append(((one, RIGHT), (other, LEFT), mtu))
                cables.append(((self.tester, RIGHT), (self.devices[-1], RIGHT), mtu_right))
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
        """Have these CPUs take in and forward frames, whichever CPU sent them (RPS).

        A veth device hands a frame over on the CPU that sends it: without this the kernel's part
        of a device works on the sender's. Interfaces that somebody steered already stay so.

        Args:
            cpus: their numbers.

        Returns:
            Interfaces steered now, and why no more could be; empty: they could.
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

    def _namespace(self, role: str, pid: int | None = None) -> Worker:
        holder = Worker(role, Holder, target=pid)
        self._holders.append(holder)
        holder.answer()
        # set before any interface exists, so that none ever says a word
        holder.ask(
            "set",
            values={
                "net/ipv6/conf/all/disable_ipv6": "1",
                "net/ipv6/conf/default/disable_ipv6": "1",
            },
        )
        return holder


def _join(cables: Sequence[tuple[End, End, int]]) -> None:
    """Make cables with an MTU [octets], each by the namespace of its first end; then all ends are up.

    A namespace has one process for all of its commands: to start it takes longer than they do.
    """
    made: dict[Worker, list[str]] = {}
    put_up: dict[Worker, list[str]] = {}
    for (holder, name), (other, peer), mtu in cables:
        end = f"name {peer} mtu {mtu} netns {other.pid}"
        made.setdefault(holder, []).append(f"link add {name} mtu {mtu} type veth peer {end}")
        for where, interface in ((holder, name), (other, peer)):
            up = f"link set dev {interface} mtu {mtu} arp off up"
            put_up.setdefault(where, []).append(up)
    # the first end of a cable is left of its second one, or the tester's: it is there when both are put up
    for holder, words in put_up.items():
        _ip(holder, made.get(holder, []) + words)


def _ip(holder: Worker, lines: Sequence[str]) -> None:
    status, output = holder.ask("run", command=["ip", "-batch", "-"], text="\n".join(lines))
    if status:
        raise EnvironmentLacking(
            f"the lab's interfaces could not be made: {output.strip() or lines[0]}",
            "the kernel needs veth support (module veth); `v6t doctor` tells more",
            code="lab-failed",
        )
