"""IPv6-to-IPv6 network prefix translation (RFC 6296), /48 to /48; stateless."""

from ipaddress import IPv6Address, IPv6Network

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import NptConfig
from v6t.packets.headers import IPV6, decrement_hops, view
from v6t.packets.reference import EXHAUSTED, DropReason
from v6t.plugins.audit_views import PrefixTranslator
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.params import LinkParams, describe_link, negative_share
from v6t.plugins.reference_device import Outcome
from v6t.plugins.traffic import change_header, combine, make_foreground, make_ipv6
from v6t.profiles.model import Variable


class Nptv6Drop(DropReason):
    """Why the translator drops a frame."""

    NOT_INSIDE = "the address is not within the prefix"


class Nptv6Params(LinkParams):
    """Parameters of ``my-nptv6``."""

    internal: IPv6Network = Field(IPv6Network("fd01:203:405::/48"), description="inside prefix")
    external: IPv6Network = Field(IPv6Network("2001:db8:1::/48"), description="outside prefix")
    server: IPv6Address = Field(IPv6Address("2001:2:0:f001::9"), description="host outside")
    negative_percent: int = negative_share("share of forward frames whose source is not inside [%]")

    @model_validator(mode="after")
    def _lengths(self):
        if {self.internal.prefixlen, self.external.prefixlen} != {48}:
            raise UsageError("both prefixes must be /48", code="not-a-prefix")
        return self


class Nptv6(StatelessTechnology):
    """Left is the inside; an adjusted subnet word keeps checksums valid."""

    name = "my-nptv6"
    title = "NPTv6: a site's IPv6 prefix translated to a provider's"
    rfcs = ("RFC 6296",)
    params_model = Nptv6Params
    overhead = 0
    ip_versions = (6, 6)
    sides = ("inside", "outside")
    drops = Nptv6Drop
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280, 1518)

    def build_traffic(self, direction, sizes, seed=1):
        p, host = self.params, np.zeros((1, 16), np.uint8)
        host[:] = octets(p.internal.network_address + 2)
        if direction == "forward":
            inner = Variable("host", 16).place(112, IPv6Address(host.tobytes()))
            inside = make_foreground(self, direction, sizes, make_ipv6(p, inner, p.server))
            negative = [change_header(inside, "outsider", "IPv6", src="fd99::1")]
            return combine(self, inside, negative, direction, sizes, seed)
        translate(host, p.internal, p.external)
        outer = Variable("host", 16).place(112, IPv6Address(host.tobytes()))
        outside = make_foreground(self, direction, sizes, make_ipv6(p, p.server, outer))
        return combine(self, outside, [], direction, sizes, seed)

    def translate_forward(self, packets):
        p = self.params
        return answer(packets, "src_octets", p.internal, p.external, p.tester_right_ipv6)

    def translate_reverse(self, packets):
        p = self.params
        return answer(packets, "dst_octets", p.external, p.internal, p.tester_left_ipv6)

    def make_dut_intent(self):
        p, links = self.params, self.links
        left = describe_link(p, links, "left", [p.internal])
        right = describe_link(p, links, "right", [p.server])
        npt = NptConfig(internal=p.internal, external=p.external)
        return DeviceIntent(self.name, npt, links, left, right)

    def list_audit_views(self):
        p = self.params
        return (PrefixTranslator(p.internal, p.external, p.internal.network_address + 2, p.server),)


def answer(packets, field, old, new, tester):
    """Translate packets with the old prefix in a field; route those for the tester's own address."""
    header = view(packets, IPV6)
    inside = (header[field][:, :6] == octets(old.network_address)[:6]).all(axis=1)
    to_tester = (header["dst_octets"] == octets(tester)).all(axis=1)

    def build(rows):
        out = packets[rows]
        decrement_hops(out, 6)
        translate(view(out, IPV6)[field], old, new)
        return out

    drops = [(Nptv6Drop.NOT_INSIDE, ~inside), (EXHAUSTED, header["hlim"] <= 1)]
    return Outcome(drops, build, native=to_tester & ~inside)


def translate(addresses, old, new):
    """Replace the prefix of addresses ``(n, 16)`` in place (RFC 6296, section 3.1)."""
    before, after = octets(old.network_address), octets(new.network_address)
    adjustment = int(before.view(">u2").sum()) - int(after.view(">u2").sum())
    word = addresses[:, 6:8].view(">u2")[:, 0]
    word[:] = (word.astype(int) + adjustment) % 0xFFFF
    addresses[:, :6] = after[:6]


def octets(address):
    return np.frombuffer(address.packed, np.uint8)
