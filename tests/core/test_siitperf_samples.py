"""The samples that siitperf publishes become the frames that siitperf sends.

Source: https://github.com/lencsegabor/siitperf, README.md and siitperf.conf at commit a3f5cad. Which
address of the file a frame carries is decided by ``ipQuad`` of throughput.cc, which 16 bits vary by
``imsend`` and ``msend``.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import RunSetup
from v6t.core.migrate.migration import migrate
from v6t.core.migrate.siitperf import read_siitperf
from v6t.packets.walker import locate_headers
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.core.support import read_sample
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

SIIT, NAT64, MANY_IPV4, MANY_IPV6, MANY_NAT64 = map(
    read_sample, ("siit", "nat64", "many-ipv4", "many-ipv6", "many-nat64")
)


def _convert(tmp_path: Path, text: str) -> RunSetup:
    source = tmp_path / "siitperf.conf"
    source.write_text(text)
    migrate(source, read_siitperf, tmp_path / "here", "siitperf")
    return resolve_setup(tmp_path / "here" / "run.yaml", tmp_path / "here" / "testbed.yaml")


def _fields(setup: RunSetup, direction: Any, count: int) -> list[tuple[Any, Any, int, int]]:
    """Return source, destination and ports of the first frames of a direction."""
    plugin = setup.technology
    sizes = plugin.make_sizes(setup.settings.frame_sizes[0])
    (stream,) = compile_traffic(plugin.build_sized_traffic(direction, sizes, 1)).streams
    frames = Expander(stream).frames(0, count)
    layout = locate_headers(frames[0])
    assert layout.transport == "UDP"
    first, octets = (8, 16) if layout.networks[0].version == 6 else (12, 4)
    at, udp = layout.networks[0].start + first, layout.start
    return [
        (
            ip_address(row[at : at + octets].tobytes()),
            ip_address(row[at + octets : at + 2 * octets].tobytes()),
            *(int(n) for n in np.frombuffer(row[udp : udp + 4].tobytes(), ">u2")),
        )
        for row in frames
    ]


def test_siit_sample_sends_real_to_virtual_addresses(tmp_path):
    setup = _convert(tmp_path, SIIT)
    forward = _fields(setup, "forward", 500)
    assert {f[:2] for f in forward} == {(IPv6Address("2001:2::2"), IPv6Address("2001:2:0:1000::2"))}
    reverse = _fields(setup, "reverse", 500)
    assert {f[:2] for f in reverse} == {(IPv4Address("198.19.0.2"), IPv4Address("198.18.0.2"))}
    for *_, source, destination in (*forward, *reverse):
        assert 1024 <= source <= 65535
        assert 1 <= destination <= 49151


@pytest.mark.parametrize("unused", ["::", "0:0::0"])
def test_siit_sample_without_background_address_is_converted(tmp_path, unused):
    setup = _convert(tmp_path, SIIT.replace("2001:2:0:8000::2", unused))
    assert setup.settings.plugin == "siit"


def test_siit_with_varying_addresses_sends_all_of_both_ranges(tmp_path):
    varying = "IP-L-var 1\nIP-L-min 2\nIP-L-max 9\nIP-R-var 2\nIP-R-min 0x10\nIP-R-max 0x17\n"
    setup = _convert(tmp_path, SIIT + varying + "IPv6-L-offset 14\nIPv6-R-offset 14\n")
    forward = _fields(setup, "forward", 8)
    left = IPv6Address("2001:2::")
    right = IPv6Address("2001:2:0:1000::")
    assert [f[0] for f in forward] == [left + n for n in range(2, 10)]
    assert [f[1] for f in forward] == [right + n for n in range(0x17, 0xF, -1)]
    reverse = _fields(setup, "reverse", 8)
    assert [f[0] for f in reverse] == [IPv4Address("198.19.0.0") + n for n in range(0x17, 0xF, -1)]
    assert [f[1] for f in reverse] == [IPv4Address("198.18.0.0") + n for n in range(2, 10)]


def test_nat64_sample_sends_to_the_virtual_address(tmp_path):
    setup = _convert(tmp_path, NAT64)
    assert str(setup.technology.params.responder_ipv4) == "198.19.0.2"
    assert str(setup.technology.params.prefix) == "64:ff9b::/96"
    fields = _fields(setup, "forward", 4000)
    virtual = IPv6Address("64:ff9b::198.19.0.2")
    assert {f[:2] for f in fields} == {(IPv6Address("2001:2::2"), virtual)}
    tuples = {f[2:] for f in fields}
    assert len(tuples) == 4000
    assert {1024 <= s <= 41023 and 1 <= d <= 100 for s, d in tuples} == {True}
    assert setup.technology.combinations == 4_000_000


def test_address_that_siitperf_does_not_send_to_is_unused(tmp_path):
    setup = _convert(tmp_path, NAT64.replace("IPv4-R-Real 0.0.0.0", "IPv4-R-Real 203.0.113.5"))
    assert str(setup.technology.params.responder_ipv4) == "198.19.0.2"
    assert "203.0.113.5 is unused" in (tmp_path / "here" / "run.yaml").read_text()


def test_enumeration_with_accounting_becomes_unique_pseudorandom(tmp_path):
    """Commit 40abd02 has ``Enumerate-ports 4``."""
    setup = _convert(tmp_path, NAT64.replace("Enumerate-ports 3", "Enumerate-ports 4"))
    assert setup.technology.params.enumerate_ports == 3


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        (
            MANY_IPV4,
            lambda n: IPv4Address("198.18.0.0") + n,
            lambda n: IPv4Address("198.19.0.0") + n,
        ),
        (
            MANY_IPV6,
            lambda n: IPv6Address("2001:2::2") + (n << 16),
            lambda n: IPv6Address("2001:2:0:8000::2") + (n << 16),
        ),
    ],
    ids=["ipv4", "ipv6"],
)
def test_router_samples_send_from_all_hosts_to_all_hosts(tmp_path, text, left, right):
    setup = _convert(tmp_path, text)
    least, most = (2, 65534) if text == MANY_IPV4 else (0, 65535)
    for direction, source, destination in (("forward", left, right), ("reverse", right, left)):
        fields = _fields(setup, direction, 3000)
        for at, host in ((0, source), (1, destination)):
            seen = {f[at] for f in fields}
            assert len(seen) > 2500
            assert host(least) <= min(seen)
            assert max(seen) <= host(most)
            assert {(int(a) - int(host(0))) % (int(host(1)) - int(host(0))) for a in seen} == {0}


def test_nat64_sample_with_many_addresses_enumerates_all_of_them(tmp_path):
    setup = _convert(tmp_path, MANY_NAT64)
    fields = _fields(setup, "forward", 20_000)
    initiators = {IPv6Address("2001:2::2") + (n << 16) for n in range(4000)}
    responders = {IPv6Address("64:ff9b::198.19.0.2") + n for n in range(1000)}
    assert {f[0] for f in fields} <= initiators
    assert {f[1] for f in fields} <= responders
    assert len({f[:2] for f in fields}) == 20_000
    assert {f[2:] for f in fields} == {(0xC020, 7)}
    assert setup.technology.combinations == 4_000_000
    ((net, via),) = setup.technology.make_dut_intent().left.routes.items()
    assert (str(net), str(via)) == ("2001:2::/100", "2001:2:0:f000::2")


@pytest.mark.parametrize(
    "text",
    [
        MANY_NAT64.replace("IPv6-R-offset 14", "IPv6-R-offset 12"),
        SIIT + "Num-R-Nets 256\n",
        NAT64.replace("Num-R-Nets 1", "Num-R-Nets 2"),
        SIIT + "IP-L-var 3\nIP-L-max 9\nIPv6-L-offset 12\n",
        SIIT + "IP-L-var 3\nIP-L-min 3\nIP-L-max 2\n",
    ],
)
def test_traffic_that_cannot_be_converted_is_refused_with_its_line(tmp_path, text):
    with expect_error("invalid-foreign-file"):
        _convert(tmp_path, text)


def test_responder_without_setting_reads_a_single_tuple_as_siitperf_does(tmp_path):
    setup = _convert(tmp_path, NAT64.replace("Responder-ports 3\n", ""))
    assert setup.settings.procedure.connections.reading == "fixed"
