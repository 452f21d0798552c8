import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from v6t.profiles.model import Layer, Variable
from v6t.profiles.template import build_template
from v6t.tests.expect import expect_error

from .traffics import ETHER, FOUR_IN_SIX, IPV4, IPV6, UDP4, UDP6, VLAN, Binding
from .traffics import UDP as UDP_LAYER

STACKS = {
    "4in6": FOUR_IN_SIX, "ipv6": UDP6, "ipv4": UDP4, "vlan": (ETHER, VLAN, *FOUR_IN_SIX[1:]),
    "tcp": (ETHER, IPV4, Layer("TCP", {"sport": 1, "dport": 2})),
    "tcp6": (ETHER, IPV6, Layer("TCP", {"sport": 1, "dport": 2})),
    "icmp": (ETHER, IPV4, Layer("ICMP", {})),
    "icmpv6": (ETHER, IPV6, Layer("ICMPv6EchoRequest", {})),
    "fragment": (ETHER, IPV6, Layer("IPv6ExtHdrFragment", {}), UDP_LAYER),
    "4in4": (ETHER, IPV4, IPV4, UDP_LAYER), "6in4": (ETHER, IPV4, IPV6, UDP_LAYER),
}  # fmt: skip


def rebuild(packet):
    """Rebuild the packet with every length and checksum computed by scapy."""
    frame = Ether(packet)
    layer = frame
    while layer:
        for name in ("chksum", "cksum", "len", "plen"):
            if name in layer.fields:
                layer.delfieldval(name)
        layer = layer.payload
    frame.clear_cache()
    return bytes(frame)


@pytest.mark.parametrize(("stack", "size"), [
    *((s, n) for s in STACKS for n in (128, 1518)), ("4in6", 104), ("ipv6", 84), ("ipv4", 64),
])  # fmt: skip
def test_lengths_and_checksums_equal_scapy(stack, size):
    template = build_template(STACKS[stack], size)
    assert len(template.packet) == size - 4
    assert template.packet == rebuild(template.packet)
    assert not any(template.packet[template.layout.payload :])


@pytest.mark.parametrize(("stack", "path", "first", "width"), [
    ("vlan", "Dot1Q.vlan", 14 * 8 + 4, 12), ("vlan", "IPv6.fl", 18 * 8 + 12, 20),
    ("vlan", "IPv6.src", 26 * 8, 128), ("vlan", "IP.src", 70 * 8, 32),
    ("vlan", "UDP.sport", 78 * 8, 16), ("4in4", "IP.src", 26 * 8, 32),
    ("4in4", "IP:1.src", 46 * 8, 32),
])  # fmt: skip
def test_field_is_found_at_its_bits(stack, path, first, width):
    _, field = build_template(STACKS[stack], 128).layout.find_field(path)
    assert (field.first, field.width) == (first, width)


def test_changed_constants_keep_checksums_valid():
    template = build_template(FOUR_IN_SIX, 104)
    _, src = template.layout.find_field("IP.src")
    _, sport = template.layout.find_field("UDP.sport")
    changed = template.with_bits([(src.first + 24, 8, 0xAB), (sport.first, 3, 5)])
    frame = Ether(changed.packet)
    assert (frame[IP].src, frame[UDP].sport) == ("192.0.2.171", 5 << 13)
    assert changed.packet == rebuild(changed.packet) and changed.packet != template.packet


def test_given_checksum_is_kept():
    layers = (ETHER, IPV4, Layer("UDP", {"chksum": 0x1234}))
    template = build_template(layers, 64).with_bits([(26 * 8, 8, 1)])
    assert Ether(template.packet)[UDP].chksum == 0x1234


def test_udp_checksum_is_never_zero():
    # a port equal to the checksum makes the sum 0xFFFF, for which the checksum would be 0
    checksum = Ether(build_template(UDP4, 64).packet)[UDP].chksum
    layers = (ETHER, IPV4, Layer("UDP", {"sport": checksum, "dport": 12345}))
    assert Ether(build_template(layers, 64).packet)[UDP].chksum == 0xFFFF
    written = build_template(UDP4, 64).with_bits([(34 * 8, 16, checksum)])
    assert Ether(written.packet)[UDP].chksum == 0xFFFF


def test_bits_are_described_by_their_fields():
    layout = build_template(FOUR_IN_SIX, 104).layout
    assert layout.describe_bits(69 * 8, 70 * 8 - 1) == "IP.src[24..31]"
    assert layout.describe_bits(74 * 8, 78 * 8 - 1) == "UDP.sport, UDP.dport"
    assert layout.describe_bits(81 * 8, 84 * 8 - 1) == "UDP.chksum[8..15], payload octet 0..1"


@pytest.mark.parametrize(("layers", "size", "code"), [
    ((), 64, "invalid-traffic-model"),
    ((Layer("Nonsense", {}),), 64, "invalid-traffic-model"),
    ((ETHER, Layer("IP", {"src": "1.2.3.4"}), UDP_LAYER), 64, "invalid-traffic-model"),
    ((Layer("Ether", {}), IPV4, UDP_LAYER), 64, "invalid-traffic-model"),
    ((ETHER, Layer("UDP", {"nonsense": 1})), 64, "invalid-traffic-model"),
    ((ETHER, IPV4, Layer("UDP", {"sport": 70000})), 64, "invalid-traffic-model"),
    ((ETHER, Layer("IP", {"src": "1.2.3.4", "dst": "1.2.3.400"})), 64, "invalid-traffic-model"),
    ((ETHER, Layer("Dot1Q", {"vlan": 5000}), *FOUR_IN_SIX[1:]), 128, "invalid-traffic-model"),
    (FOUR_IN_SIX, 64, "frame-too-small"),
    (FOUR_IN_SIX, 63, "out-of-range"),
    (FOUR_IN_SIX, 9300, "out-of-range"),
])  # fmt: skip
def test_frame_that_cannot_be_built_is_rejected(layers, size, code):
    with expect_error(code):
        build_template(layers, size)


@pytest.mark.parametrize("binding", [
    Binding("v", "IP:1.src", 0, 7), Binding("v", "IP.sauce", 0, 7), Binding("v", "IP.src", 24, 32),
    Binding("v", "IP.src", 8, 7), Binding("v", "UDP.chksum", 0, 15),
    Binding("v", "IPv6.plen", 0, 15), Binding("v", "sport", 0, 15),
])  # fmt: skip
def test_bits_outside_a_variable_field_are_rejected(binding):
    layout, bits = build_template(FOUR_IN_SIX, 104).layout, binding.bits([Variable("v", 16)])
    with expect_error("invalid-traffic-model"):
        layout.locate_bits(binding.field, bits)
