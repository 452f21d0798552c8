"""Where routes lead that somebody typed, in the words of several tools."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.typed_routes import destinations

BOTH = ["0.0.0.0/0", "::/0"]


def nets(text):
    return [str(net) for _, net in destinations(text)]


@pytest.mark.parametrize(
    ("line", "leads"),
    [
        # iproute2, with all its abbreviations
        ("ip route add default via 10.0.0.1", BOTH),
        ("ip r a default via 10.0.0.1", BOTH),
        ("ip ro replace default dev left", BOTH),
        ("ip rou c 0.0.0.0/0 via 10.0.0.1", ["0.0.0.0/0"]),
        ("ip -4 r add default dev left", ["0.0.0.0/0"]),
        ("ip -6 r add default via inet6 fe80::1 dev left", ["::/0"]),
        ("ip -4 route replace default dev left", ["0.0.0.0/0"]),
        ("/sbin/ip r a dev left default", BOTH),
        ("ip r a table main via 10.0.0.1 any", BOTH),
        ("ip r a 0/1 dev left && ip r a 128/1 dev left", ["0.0.0.0/1", "128.0.0.0/1"]),
        ("ip r a 10/8 dev left", ["10.0.0.0/8"]),
        ("ip r a blackhole 10.9.9.2", ["10.9.9.2/32"]),
        ("ip route add via 10.0.0.1 10.9.9.2", ["10.9.9.2/32"]),
        ("ip route add via inet6 fe80::1 dev left 10.9.9.2", ["10.9.9.2/32"]),
        ("ip r d default", BOTH),
        ("ip -batch - <<X\nr a default dev left\nX", BOTH),
        ('sh -c "ip r a \\"default\\" dev left"', BOTH),
        ("ip route add \\\n default dev left", BOTH),
        # route(8) of Linux and of BSD
        ("route add -net 0.0.0.0/0 gw 10.0.0.1", ["0.0.0.0/0"]),
        ("route add -net 0.0.0.0 netmask 0.0.0.0 gw 10.0.0.1", ["0.0.0.0/0"]),
        ("route add -net 0.0.0.0 netmask 128.0.0.0 dev left", ["0.0.0.0/1"]),
        ("route add -net 10.9.9.0 gw 10.0.0.1 netmask 255.255.255.0", ["10.9.9.0/24"]),
        ("route add -net 10.0.0.0 gw 10.0.0.1", ["10.0.0.0/8"]),
        ("route add default gw 10.0.0.1", BOTH),
        ("route add -host 10.9.9.2 10.0.0.1", ["10.9.9.2/32"]),
        ("route -A inet6 add default gw fe80::1", ["::/0"]),
        ("route -qn add -inet default 10.0.0.1", ["0.0.0.0/0"]),
        ("route add -inet6 :: -prefixlen 1 fe80::1", ["::/1"]),
        # routers
        ("vtysh -c 'conf t' -c 'ip route 0.0.0.0 0.0.0.0 10.0.0.1'", ["0.0.0.0/0"]),
        ("vtysh -c 'ip route 10.0.0.0/8 Null0' -c 'ip route 0.0.0.0/0 10.0.0.1'",
         ["10.0.0.0/8", "0.0.0.0/0"]),
        ("ip route vrf red 10.9.9.0 255.255.255.0 10.0.0.1", ["10.9.9.0/24"]),
        ("ip route 10.9.9.2 255.255.255.255 10.0.0.1", ["10.9.9.2/32"]),
        ("ipv6 route ::/0 fe80::1", ["::/0"]),
        ("set routing-options static route 0/0 next-hop 10.0.0.1", ["0.0.0.0/0"]),
        ("set routing-options rib inet6.0 static route default next-hop fe80::1", ["::/0"]),
        # no route, or one that is looked at, or somebody else's
        ("ip r | grep default", []),
        ("gw=$(ip route show default | cut -d' ' -f3); ip route add 10.1.1.1 via $gw", ["10.1.1.1/32"]),
        ("ip r g 10.9.9.2", []),
        ("route -n get default", []),
        ("show ip route 0.0.0.0", []),
        ("ip route add default dev v6t-tunnel table 8676 proto 86", []),
        ("ip netns exec inside ip route add default dev left", []),
        ("ip route add 10.1.1.1/32 via 10.9.9.2", ["10.1.1.1/32"]),
        ("ip link set dev r up; ip rule add from all lookup 100", []),
        ("sysctl -w net.ipv6.conf.default.accept_ra=2", []),
        ("iptables -P FORWARD ACCEPT # default, any, all", []),
    ],
)  # fmt: skip
def test_where_a_route_leads(line, leads):
    assert nets(line) == leads


def test_a_route_is_shown_by_its_own_word():
    assert [word for word, _ in destinations("ip r a 10/8 dev left; ip -4 r a default")] == [
        "10/8", "default",
    ]  # fmt: skip
