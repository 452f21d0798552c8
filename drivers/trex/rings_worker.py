"""What stood in the send rings of TRex's ports when a trial had ended.

Handed over with :mod:`v6t.drivers.trex.client_worker`: old syntax, the standard library only.
"""

import binascii
import time
from typing import List

PUSHED_S = 0.05
"""By then a frame given to a port has left, and those before it in the send ring."""
WAITS = 20
"""For frames that come by themselves."""
PUSHES = 100
"""At most: a push frees what the kernel keeps of a socket's frames at once, which is about 90 of 1,518
octets and 277 of 84; a ring has 8,192."""
PUSH = binascii.unhexlify(
    "0180c200000e" + "020000000001" + "0806" + "0001080006040001"
    "020000000001" + "00000000" + "000000000000" + "c0000008"
) + bytes(18)  # fmt: skip
"""An ARP probe (RFC 5227) for 192.0.0.8, nobody's, to a group that no bridge forwards."""


def received(stats, groups, captures, receive):
    """Test frames that came to these ports in a trial: what is told apart from control frames."""
    if any(entry["kind"] == "control" for entry in captures):
        arrived = sum(stats[port]["ipackets"] for port in receive)
        return arrived - _matched(captures, "control")
    flows = groups.get("flow_stats", {}).values()
    stamped = sum(int(one.get("rx_pkts", {}).get(port, 0)) for one in flows for port in receive)
    return stamped + _matched(captures, "marked")


def pushed_out(client, ports, receive):
    """Frames that came only now that each port was given another one to send.

    The kernel takes frames out of an interface's send ring when a frame is put there; where it had
    no room for the last of a trial, they stand there, sent by TRex's count, until the next trial.
    TRex sends on such a port with one core by one ring: one frame for each port is enough.
    What comes by itself is the device's: nothing is said of the rings unless there is silence before.
    """
    if not all(client.ports[port].is_virtual() for port in ports):
        return 0
    from trex.common.trex_client import PacketBuffer

    one = PacketBuffer(PUSH, port_src=False, port_dst=False)
    heard = [_arrived(client, receive)]

    def came():
        time.sleep(PUSHED_S)
        heard.append(_arrived(client, receive))
        return heard[-1] - heard[-2]

    if all(came() for _ in range(WAITS)):
        return 0
    pushed: List[int] = []
    while len(pushed) < 2 or (len(ports) < pushed[-1] and len(pushed) < PUSHES):
        client.push_packets([one], ports=ports, force=True)
        pushed.append(came())
    back = min(pushed[-1], len(ports))  # over a cable what is pushed comes back, too
    return sum(max(0, n - back) for n in pushed)


def _matched(captures, kind):
    return sum(entry["matched"] for entry in captures if entry["kind"] == kind)


def _arrived(client, receive):
    stats = client.get_stats(ports=receive)
    return sum(stats[port]["ipackets"] for port in receive)
