"""Neighbor answers and requests for the tester's hosts, checked by Scapy, and exchanges of single frames."""

import base64
import queue
import time
import types
from contextlib import closing
from dataclasses import replace
from itertools import cycle
from unittest.mock import ANY, Mock, call

import numpy as np
import pytest
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import make_tester
from v6t.drivers.lab import prober as lab_prober
from v6t.drivers.neighbours import MAX_INTRODUCED_HOSTS, Hosts
from v6t.drivers.trex import tester as trex_tester
from v6t.drivers.trex.client import worker
from v6t.drivers.trex.kind import Trex
from v6t.intent.device import BackgroundVlan, Link, LinkIntent, Links, make_host_arguments
from v6t.plugins.siit import Siit

from .duts.remote_site import wait_until
from .lab_testers import write_testbed

TESTER, DEVICE = "02:00:00:00:01:02", "02:00:00:00:01:01"
HOST4, HOST6 = "198.18.0.2", "2001:2::2"
ROUTER4, ROUTER6 = "198.18.0.1", "2001:2::1"
LINK_LOCAL = "fe80::1"


def make_hosts(addresses=(HOST4, HOST6), device=(f"{ROUTER4}/24", f"{ROUTER6}/64")):
    return Hosts(TESTER, list(addresses), DEVICE, list(device))


def make_request(target=HOST4, sender=ROUTER4, **more):
    frame = Ether(src=DEVICE, dst="ff:ff:ff:ff:ff:ff")
    return frame / ARP(**{"op": 1, "hwsrc": DEVICE, "psrc": sender, "pdst": target, **more})


def make_solicitation(target=HOST6, source=ROUTER6, to="ff02::1:ff00:2", hop_limit=255, **more):
    frame = Ether(src=DEVICE, dst="33:33:ff:00:00:02")
    packet = IPv6(src=source, dst=to, hlim=hop_limit) / ICMPv6ND_NS(tgt=target, **more)
    return frame / packet / ICMPv6NDOptSrcLLAddr(lladdr=DEVICE)


def get_answer(frame, hosts):
    answer = hosts.answer(bytes(frame))
    return answer and Ether(answer)


def build_frame(*layers, dst=DEVICE):
    """Return the octets of a frame of the tester, padded like an Ethernet frame."""
    frame = Ether(src=TESTER, dst=dst)
    for layer in layers:
        frame /= layer
    return bytes(frame).ljust(60, b"\0")


def advertise(target, to, *, dst=DEVICE, solicited=1):
    message = ICMPv6ND_NA(tgt=target, S=solicited, O=1, R=0) / ICMPv6NDOptDstLLAddr(lladdr=TESTER)
    return build_frame(IPv6(src=target, dst=to, hlim=255), message, dst=dst)


def test_arp_request_for_host_is_answered():
    reply = ARP(op=2, hwsrc=TESTER, psrc=HOST4, hwdst=DEVICE, pdst=ROUTER4)
    assert make_hosts().answer(bytes(make_request())) == build_frame(reply)


@pytest.mark.parametrize("to", ["ff02::1:ff00:2", HOST6])
def test_multicast_and_unicast_solicitations_are_answered(to):
    solicitation = make_solicitation(to=to, source=LINK_LOCAL)
    assert make_hosts().answer(bytes(solicitation)) == advertise(HOST6, LINK_LOCAL)


def test_duplicate_address_detection_is_answered_by_multicast():
    probe = Ether(src=DEVICE, dst="33:33:ff:00:00:02") / IPv6(src="::", dst="ff02::1:ff00:2")
    expected = advertise(HOST6, "ff02::1", dst="33:33:00:00:00:01", solicited=0)
    assert make_hosts().answer(bytes(probe / ICMPv6ND_NS(tgt=HOST6))) == expected


@pytest.mark.parametrize("frame", [
    make_request("198.18.0.3"), make_request(HOST4, HOST4), make_request(op=2), make_request(hwlen=8),
    make_solicitation("2001:2::3"), make_solicitation(hop_limit=254),
    make_solicitation(code=1), make_solicitation(cksum=1),
    Ether(bytes(make_solicitation())[:60]), Ether(bytes(make_request())[:30]),
    Ether(src=DEVICE, dst=TESTER) / Dot1Q(vlan=7) / make_request().payload,
])  # fmt: skip
def test_other_and_malformed_requests_are_not_answered(frame):
    assert make_hosts().answer(bytes(frame)) is None


def tag(vlan, frame):
    return Ether(src=DEVICE, dst=TESTER) / Dot1Q(vlan=vlan, prio=3) / frame.payload


def test_background_vlan_has_a_separate_host():
    """Neighbor resolution finds the tester on both VLANs of a cable."""
    tester, router = "2001:2:0:b::2", "2001:2:0:b::1"
    background = BackgroundVlan(vlan=8, device=f"{router}/64", tester=tester)
    link = Link(tester_mac=TESTER, dut_mac=DEVICE, vlan=7, background=background)
    side = LinkIntent([f"{ROUTER4}/24"], {HOST4: TESTER})
    intent = replace(Siit().make_dut_intent(), links=Links(link), left=side)
    hosts = Hosts(**make_host_arguments(intent.emulated_links.left))
    solicitation = make_solicitation(tester, router)
    reply = get_answer(tag(7, make_request()), hosts)
    assert (reply[Dot1Q].vlan, reply[ARP].psrc) == (7, HOST4)
    assert get_answer(make_request(), hosts) is get_answer(tag(9, make_request()), hosts) is None
    assert [get_answer(tag(vlan, solicitation), hosts) for vlan in (7, 9)] == [None, None]
    reply = get_answer(tag(8, solicitation), hosts)
    assert (reply[Dot1Q].vlan, reply[ICMPv6ND_NA].tgt) == (8, tester)
    introductions = [Ether(f) for f in hosts.make_introductions()]
    assert [f[Dot1Q].vlan for f in introductions] == [7, 8]
    assert introductions[1][ICMPv6ND_NS].tgt == router


def test_hosts_resolve_device_address_of_their_network():
    device = ("10.0.0.1/8", f"{ROUTER4}/24", "2001:db8::1/64", f"{ROUTER6}/64")
    solicitation = ICMPv6ND_NS(tgt=ROUTER6) / ICMPv6NDOptSrcLLAddr(lladdr=TESTER)
    assert make_hosts(device=device).make_introductions() == [
        build_frame(ARP(op=1, hwsrc=TESTER, psrc=HOST4, pdst=ROUTER4)),
        build_frame(IPv6(src=HOST6, dst=ROUTER6, hlim=255), solicitation),
    ]


def test_introductions_need_device_address_and_are_limited():
    assert make_hosts(device=()).make_introductions() == []
    assert len(make_hosts(device=(ROUTER4,)).make_introductions()) == 1
    many = [f"10.{n >> 8}.{n & 255}.1" for n in range(MAX_INTRODUCED_HOSTS + 1)]
    assert len(make_hosts(many[1:]).make_introductions()) == MAX_INTRODUCED_HOSTS
    assert make_hosts(many).make_introductions() == []


@pytest.mark.parametrize(("link", "answers", "introduces"), [
    ("{}", True, True), ("{answers: true}", True, True), ("{learning: false}", True, False),
    ("{answers: false, learning: true}", False, True), ("{answers: false}", False, False),
])  # fmt: skip
def test_answers_and_learning_are_separate_options(link, answers, introduces, tmp_path):
    """A tester that cannot answer sends requests (RFC 2544, appendix C.2.4.1)."""
    bed = write_testbed(tmp_path, f"tester: {{kind: embedded}}\nlinks: {{left: {link}}}\n")
    setup = resolve_setup(testbed=bed, plugin="mape-br")
    described = make_tester(setup).describe()
    assert described["answers_on"] == (["left", "right"] if answers else ["right"])
    assert described["learning_on"] == (["left", "right"] if introduces else ["right"])
    assert make_tester(setup, loopback=True).describe()["answers_on"] == []
    arguments = make_host_arguments(setup.technology.make_dut_intent().emulated_links.left)
    assert (arguments is not None) is (answers or introduces)
    hosts = arguments and Hosts(**arguments)
    assert bool(hosts and hosts.make_introductions()) is introduces
    request = make_solicitation("2001:db8:6::2", "2001:db8:6::1")
    assert bool(hosts and get_answer(request, hosts)) is answers


class FakeSocket:
    """Fake ZeroMQ socket with a queue of received frames, which is empty after a timeout."""

    def __init__(self):
        self.received = queue.Queue()
        self.setsockopt, self.send, self.close = Mock(), Mock(), Mock()

    def bind(self, endpoint):
        self.port = int(endpoint[-1])

    def recv(self):
        return self.received.get(timeout=self.setsockopt.call_args.args[1] / 1000)


@pytest.fixture
def responder_sockets(tmp_path):
    """Provide the responder of two ports and their sockets."""
    sockets = FakeSocket(), FakeSocket()
    context = Mock(**{"socket.side_effect": sockets})
    zmq = types.SimpleNamespace(PAIR=0, RCVTIMEO=27, Again=queue.Empty, Context=lambda: context)
    hosts = {0: make_hosts(), 1: make_hosts(("198.19.0.2",), ())}
    with closing(worker.NeighborResponder(zmq, str(tmp_path), hosts)) as responder:
        wait_until(lambda: all(hasattr(socket, "port") for socket in sockets), "both sockets")
        yield responder, *sorted(sockets, key=lambda socket: socket.port)


def test_answers_taken_by_trex_are_counted_by_port(responder_sockets):
    responder, left, right = responder_sockets
    left.received.put(bytes(make_request()))
    left.received.put(bytes(make_request("198.18.0.3")))
    wait_until(lambda: left.send.called, "an answer")
    with responder.pause():
        assert responder.sent == {0: 1, 1: 0}
        left.received.put(bytes(make_request()))
        assert left.send.call_count == 1, "no request is answered while counters are read"
    wait_until(lambda: left.send.call_count == 2, "another answer")
    left.send.side_effect = queue.Empty  # TRex takes no frame
    left.received.put(bytes(make_request()))
    wait_until(lambda: left.send.call_count == 3, "an attempt")
    with responder.pause():
        assert responder.sent == {0: 2, 1: 0}
    left.send.assert_called_with(ANY, worker.DONTWAIT)
    right.send.assert_not_called()


def test_dead_socket_is_reported_without_waiting(responder_sockets):
    responder, left, _ = responder_sockets
    left.recv = Mock(side_effect=OSError("gone"))

    def read_counters():
        while True:
            with responder.pause():
                pass

    with pytest.raises(OSError, match="gone"):
        read_counters()


def test_exchange_maps_ports_to_sides(monkeypatch):
    """The left side is port 3, the right side port 1."""
    frames = ((3, 2.0, b"back"), (1, 1.0, b"out"))
    server = Mock(learning_ports=(1,))
    server.ask.return_value = [
        {"kind": "sample", "ports": [p], "matched": 1, "frames": [[at_s, base64.b64encode(f), p]]}
        for p, at_s, f in frames
    ]
    monkeypatch.setattr(trex_tester, "Attachment", Mock(return_value=server))
    prober = Trex({"ports": [3, 1]}).make_prober(Siit().links, None)
    server.open.assert_called_once()
    received = prober.exchange([("left", b"a"), ("right", b"b")], 0.4, 0.06)
    assert received == [("right", b"out"), ("left", b"back")]
    introduction, exchange = server.ask.mock_calls
    assert introduction == call("introduce_hosts", ports=(1,))
    sent = [[port, base64.b64encode(octets).decode()] for port, octets in ((3, b"a"), (1, b"b"))]
    assert exchange.kwargs["frames"] == sent
    assert [capture["ports"] for capture in exchange.kwargs["captures"]] == [[3], [1]]
    prober.close()
    server.close.assert_called_once()


@pytest.mark.parametrize(("quiet_s", "longest_s"), [(0.0, 0.05), (0.01, 0.25)])
def test_exchange_on_busy_link_ends(quiet_s, longest_s, monkeypatch):
    """Other hosts send more frequently than the time to wait for another frame."""
    frame, poll = np.zeros(60, np.uint8), Mock(poll=lambda ms: time.sleep(0.001))
    ring = Mock(**{"take.side_effect": cycle([[([frame], [0])], []])})
    monkeypatch.setattr(lab_prober, "RxRing", Mock(return_value=ring))
    monkeypatch.setattr(lab_prober, "poll_rings", lambda rings: poll)
    probing = lab_prober.ProberRole({"left": "left"}, 60, {"left": None})
    began = time.monotonic()
    received = probing.exchange([], 0.05, quiet_s)
    assert longest_s <= time.monotonic() - began < 2
    assert set(received) == {("left", frame.tobytes())}
