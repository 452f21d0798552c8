"""The lab: two namespaces, tester and device, joined by two veth pairs.

::

    tester namespace          device namespace
      left  ================== left
      right ================== right

In loopback there is one pair, both ends in the tester's namespace. The interfaces are mute: no
IPv6, no ARP, no addresses, and MAC addresses other than those in test frames, so that the
kernel's own stack drops these at once and only packet sockets see them.
"""

from __future__ import annotations

from v6t.drivers.embedded.channel import Worker
from v6t.profiles.errors import EnvironmentLacking

LEFT, RIGHT = "left", "right"


class Lab:
    """Namespaces and cables; everything vanishes with :meth:`close` or with this process."""

    def __init__(
        self,
        mtu_left: int,
        mtu_right: int,
        *,
        loopback: bool = False,
        device_pid: int | None = None,
    ) -> None:
        """Build it.

        Args:
            mtu_left: MTU of the left cable [octets].
            mtu_right: MTU of the right one.
            loopback: join the tester's two ports directly.
            device_pid: a process whose network namespace is the device's; None: a new one.

        Raises:
            EnvironmentLacking: the kernel refuses namespaces or veth pairs.
        """
        self.loopback = loopback
        self._holders: list[Worker] = []
        try:
            self.tester = self._namespace("tester namespace")
            self.device = None if loopback else self._namespace("device namespace", device_pid)
            if self.device is None:
                mtu = max(mtu_left, mtu_right)
                self._cable(LEFT, mtu, self.tester.pid, RIGHT)
                self._up(self.tester, [LEFT, RIGHT], mtu)
            else:
                for name, mtu in ((LEFT, mtu_left), (RIGHT, mtu_right)):
                    self._cable(name, mtu, self.device.pid, name)
                    self._up(self.tester, [name], mtu)
                    self._up(self.device, [name], mtu)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove namespaces, and with them all interfaces. May be called twice."""
        for holder in reversed(self._holders):
            holder.close()
        self._holders.clear()

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

    def _cable(self, name: str, mtu: int, peer_pid: int, peer: str) -> None:
        _ip(
            self.tester,
            f"link add {name} mtu {mtu} type veth peer name {peer} mtu {mtu} netns {peer_pid}",
        )

    @staticmethod
    def _up(holder: Worker, names: list[str], mtu: int) -> None:
        _ip(holder, *(f"link set dev {name} mtu {mtu} arp off up" for name in names))


def _ip(holder: Worker, *commands: str) -> None:
    status, output = holder.ask("run", command=["ip", "-batch", "-"], text="\n".join(commands))
    if status:
        raise EnvironmentLacking(
            f"the lab's interfaces could not be made: {output.strip() or commands[0]}",
            "the kernel needs veth support (module veth); `v6t doctor` tells more",
        )
