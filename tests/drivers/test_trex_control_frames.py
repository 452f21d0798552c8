"""TRex's capture filters: control frames of devices, and test frames that are not UDP."""

import copy
import shutil
import subprocess
from dataclasses import replace
from io import BytesIO

import pytest
from scapy.contrib import lldp
from scapy.contrib.ospf import OSPF_Hdr, OSPF_Hello
from scapy.layers import inet6
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, LLC, STP, Dot1Q, Dot3, Ether
from scapy.layers.rip import RIP
from scapy.layers.vrrp import VRRPv3
from scapy.utils import rdpcap, wrpcap
from v6t.drivers.trex import counting
from v6t.drivers.trex.capture import make_control_filter
from v6t.drivers.trex.streams import with_stamps
from v6t.packets.walker import find_problems
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.plugins.foreign import ALL, Echo, Gre
from v6t.tests.profiles.test_protocols import streams

from .faketrex import parse_trial
from .test_trex_counting import RECORDED, SENT, STREAMS

MAC, TESTER = "02:00:00:00:00:11", "02:00:00:00:00:01"
IGMP = IP(dst="224.0.0.22", proto=2) / bytes.fromhex("1600f9fdef000002")
OWN = {
    "ARP request": Ether(src=MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="192.0.2.2"),
    "ARP probe of one host": Ether(src=MAC, dst=TESTER) / ARP(pdst="192.0.2.2"),
    "ND solicitation": Ether(src=MAC, dst="33:33:ff:00:00:02") / inet6.IPv6() / inet6.ICMPv6ND_NS(),
    "ND probe of one host": Ether(src=MAC, dst=TESTER) / inet6.IPv6() / inet6.ICMPv6ND_NS(),
    "ND advertisement": Ether(src=MAC, dst=TESTER) / inet6.IPv6() / inet6.ICMPv6ND_NA(),
    "RA": Ether(src=MAC, dst="33:33:00:00:00:01") / inet6.IPv6(dst="ff02::1") / inet6.ICMPv6ND_RA(),
    "MLD": Ether(src=MAC, dst="33:33:00:00:00:16") / inet6.IPv6(dst="ff02::16")
    / inet6.IPv6ExtHdrHopByHop(options=[inet6.RouterAlert()]) / inet6.ICMPv6MLReport2(),
    "IGMP": Ether(src=MAC, dst="01:00:5e:00:00:16") / IGMP,
    "LLDP": Ether(src=MAC, dst="01:80:c2:00:00:0e", type=0x88CC)
    / lldp.LLDPDUChassisID(subtype=4, id=MAC) / lldp.LLDPDUPortID(subtype=7, id="1")
    / lldp.LLDPDUTimeToLive(ttl=120) / lldp.LLDPDUEndOfLLDPDU(),
    "spanning tree": Dot3(src=MAC, dst="01:80:c2:00:00:00") / LLC() / STP(),
    "OSPF": Ether(src=MAC, dst="01:00:5e:00:00:05") / IP(dst="224.0.0.5") / OSPF_Hdr() / OSPF_Hello(),
    "VRRP": Ether(src="00:00:5e:00:01:01", dst="01:00:5e:00:00:12") / IP(dst="224.0.0.18") / VRRPv3(),
    "RIP": Ether(src=MAC, dst="01:00:5e:00:00:09") / IP(dst="224.0.0.9")
    / UDP(sport=520, dport=520) / RIP(),
    "ICMP error": Ether(src=MAC, dst=TESTER) / IP() / ICMP(type=3),
    "ARP in a VLAN": Ether(src=MAC, dst=TESTER) / Dot1Q(vlan=7) / ARP(),
    "IGMP in a VLAN": Ether(src=MAC, dst="01:00:5e:00:00:16") / Dot1Q(vlan=7) / IGMP,
}  # fmt: skip


@pytest.fixture
def count_matching(tmp_path):
    """Provide a function that counts the frames that pass libpcap's filter of control frames."""

    def count(frames):
        path, pattern = tmp_path / "frames.pcap", make_control_filter(STREAMS.values())
        wrpcap(str(path), [Ether(bytes(frame)) for frame in frames])
        command = ["tcpdump", "-n", "-r", "-", "-w", "-", "-U", pattern]
        with path.open("rb") as file:
            result = subprocess.run(command, stdin=file, capture_output=True, check=True)
        return len(rdpcap(BytesIO(result.stdout)))

    return count


needs_tcpdump = pytest.mark.skipif(shutil.which("tcpdump") is None, reason="needs tcpdump")


@needs_tcpdump
@pytest.mark.parametrize("name", OWN)
def test_control_frames_of_devices_match_filter(name, count_matching):
    assert count_matching([OWN[name]]) == 1


@needs_tcpdump
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_test_frames_do_not_match_control_filter(direction, count_matching):
    streams = STREAMS[direction].streams
    assert count_matching([row for s in streams for row in Expander(s).frames(0, 50)]) == 0


def test_captured_stamps_are_counted():
    raw, load = copy.deepcopy(RECORDED["answer"]), SENT["forward"]
    assert counting.count_captured_stamps(parse_trial(raw), [load]) == {}
    raw["captures"] = [
        {"kind": kind, "class": number, "port": port, "matched": matched}
        for kind, number, port, matched in (
            ("marked", counting.STAMPS_CLASS, 1, 500),
            ("marked", counting.STAMPS_CLASS, 0, 7),
            ("marked", 0, 1, 11),
            ("control", 0, 1, 13),
        )
    ]
    for bursts, received in ((load.bursts, 2000), (load.bursts[:1], 1800)):
        counts = counting.count_captured_stamps(parse_trial(raw), [replace(load, bursts=bursts)])
        assert counts == {"received": received, "captured": 500}


@pytest.mark.parametrize("plugin", [p for p in ALL if p is not Echo])
def test_stamped_streams_have_trex_fix_their_checksum(plugin):
    for stream in with_stamps(streams(plugin)).streams:
        program = [i["type"] for i in stream.program]
        assert ("fix_checksum_hw" in program) == (stream.checksum is not None)
        assert program.count("fix_checksum_hw") <= 1
        assert not find_problems(Expander(stream).frames(0, 1)[0].tobytes())


def test_stamp_under_a_checksum_beyond_trex_is_rejected():
    with expect_error("beyond-trex", mentions="fg"):
        with_stamps(streams(Echo))


def test_echoes_are_control_frames_unless_they_are_test_frames():
    assert "icmp or icmp6" in make_control_filter([streams(Gre)])
    assert "icmp[0] != 8" in make_control_filter([streams(Gre), streams(Echo)])
