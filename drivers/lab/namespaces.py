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

from v6t.drivers.lab.channel import Worker
from v6t.profiles.errors import EnvironmentLacking
from v6t.profiles.intent import Port

LEFT: Port = "left"
RIGHT: Port = "right"


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
            if loopback:
                self._cable(self.tester, LEFT, max(mtu_left, mtu_right), self.tester, RIGHT)
            else:
                self._cable(self.tester, LEFT, mtu_left, self.devices[0], LEFT)
                for (one, other), mtu in zip(pairwise(self.devices), mtus_between, strict=True):
                    self._cable(one, RIGHT, mtu, other, LEFT)
                self._cable(self.tester, RIGHT, mtu_right, self.devices[-1], RIGHT)
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
        holder = Worker(role, {"kind": "holder", "namespace": pid})
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

    @staticmethod
    def _cable(holder: Worker, name: str, mtu: int, other: Worker, peer: str) -> None:
        _ip(
            holder,
            f"link add {name} mtu {mtu} type veth peer name {peer} mtu {mtu} netns {other.pid}",
        )
        _ip(holder, f"link set dev {name} mtu {mtu} arp off up")
        _ip(other, f"link set dev {peer} mtu {mtu} arp off up")


def _ip(holder: Worker, *commands: str) -> None:
    status, output = holder.ask("run", command=["ip", "-batch", "-"], text="\n".join(commands))
    if status:
        raise EnvironmentLacking(
            f"the lab's interfaces could not be made: {output.strip() or commands[0]}",
            "the kernel needs veth support (module veth); `v6t doctor` tells more",
        )
