"""Conversion of files of siitperf, Maptperf and Mapperf.

siitperf's samples come from https://github.com/lencsegabor/siitperf, README.md and siitperf.conf at
commit a3f5cad. ``ipQuad`` of throughput.cc decides which address of the file a frame carries,
``imsend`` and ``msend`` which 16 bits vary.
"""

import json
from ipaddress import IPv4Address, IPv6Address, ip_address

import numpy as np
import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.migrate import siitperf
from v6t.packets.walker import locate_headers
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.core.support import read_dir, read_sample, v6t
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow

SIITPERF, SIIT, NAT44, NAT64, MANY_IPV4, MANY_IPV6, MANY_NAT64, MAPPERF = map(
    read_sample,
    ("siitperf", "siit", "nat44", "nat64", "many-ipv4", "many-ipv6", "many-nat64", "mapperf"),
)

# Maptperf 1.3 writes Prefx-Length, and has no BR address
MAPTPERF = MAPPERF.replace("DUT-L-IPv6 2001:db8:6::1 # corresponding BR for MAP-E\n", "").replace(
    "Prefix-Length", "Prefx-Length"
)


def run_init(tmp_path, text, *arguments, peer="siitperf"):
    """Run `v6t init` for a configuration file of another program."""
    path = tmp_path / f"{peer}.conf"
    path.write_text(text)
    return v6t("init", f"--from-{peer}", path, "--dir", tmp_path / "here", *arguments)


def convert(tmp_path, text, *arguments, peer="siitperf"):
    """Convert a configuration file and resolve the resulting files."""
    done = run_init(tmp_path, text, *arguments, peer=peer)
    assert (done.status, done.err) == (0, ""), done
    return resolve_setup(tmp_path / "here" / "run.yaml", tmp_path / "here" / "testbed.yaml")


def expand(setup, direction, count):
    """Return source, destination and ports of the first frames of a direction."""
    plugin = setup.technology
    sizes = plugin.make_sizes(setup.settings.frame_sizes[0])
    (stream,) = compile_traffic(plugin.build_sized_traffic(direction, sizes, 1)).streams
    frames = Expander(stream).compute_frames(0, count)
    layout = locate_headers(frames[0])
    assert layout.transport == "UDP"
    offset, size = (8, 16) if layout.networks[0].version == 6 else (12, 4)
    at, udp = layout.networks[0].start + offset, layout.start
    starts = at, at + size
    pairs = [[ip_address(row[i : i + size].tobytes()) for i in starts] for row in frames]
    ports = [np.frombuffer(row[udp : udp + 4].tobytes(), ">u2") for row in frames]
    return [(*pair, *map(int, numbers)) for pair, numbers in zip(pairs, ports, strict=True)]


def test_maptperf_file_becomes_a_map_t_run_unless_the_plugin_is_named(tmp_path):
    setup = convert(tmp_path, MAPTPERF, peer="maptperf")
    p = setup.technology.params
    assert (setup.settings.plugin, str(p.dmr)) == ("mapt-br", "64:ff9b::/64")
    assert str(p.dut_left_ipv6) == "2001:db8:6::1/64"
    (tmp_path / "e").mkdir()
    setup = convert(tmp_path / "e", MAPTPERF, "--plugin", "mape-br", peer="maptperf")
    assert setup.settings.plugin == "mape-br"


def test_swapped_siitperf_sides_become_nat46(tmp_path):
    text = SIITPERF.replace("IP-L-Vers 6", "IP-L-Vers 4").replace("IP-R-Vers 4", "IP-R-Vers 6")
    text = text.replace("IPv6-L-Virt ::", "IPv6-L-Virt 2001:2:0:1000::2")
    text = text.replace("IPv4-L-Real 0.0.0.0", "IPv4-L-Real 198.18.0.9")
    text = text.replace("IPv4-R-Virt 0.0.0.0", "IPv4-R-Virt 198.19.0.9")
    setup = convert(tmp_path, text)
    p, links = setup.technology.params, setup.settings.links
    assert links.left.dut_mac == "a0:36:9f:c5:e6:58"
    assert links.right.tester_mac == "a0:36:9f:c5:fa:1e"
    assert (p.orientation, p.fw_sport.policy) == ("nat46", "fixed")  # siitperf's default
    assert "RFC 4814" in (tmp_path / "here" / "run.yaml").read_text()
    assert str(p.ipv4_hosts.first) == "198.18.0.9"
    assert str(p.mappings.to_ipv6(p.ipv4_hosts.first)) == "2001:2:0:1000::2"
    assert str(p.mappings.to_ipv6(p.ipv6_hosts.first)) == "2001:2:0:8000::2"


def test_siit_sample_sends_real_to_virtual_addresses(tmp_path):
    setup = convert(tmp_path, SIIT)
    forward, reverse = (expand(setup, direction, 500) for direction in ("forward", "reverse"))
    assert {f[:2] for f in forward} == {(IPv6Address("2001:2::2"), IPv6Address("2001:2:0:1000::2"))}
    assert {f[:2] for f in reverse} == {(IPv4Address("198.19.0.2"), IPv4Address("198.18.0.2"))}
    for *_, source, destination in (*forward, *reverse):
        assert 1024 <= source <= 65535
        assert 1 <= destination <= 49151


@pytest.mark.parametrize("unused", ["::", "0:0::0"])
def test_siit_sample_without_background_address_is_converted(tmp_path, unused):
    assert convert(tmp_path, SIIT.replace("2001:2:0:8000::2", unused)).settings.plugin == "siit"


def test_siit_with_varying_addresses_sends_all_of_both_ranges(tmp_path):
    varying = "IP-L-var 1\nIP-L-min 2\nIP-L-max 9\nIP-R-var 2\nIP-R-min 0x10\nIP-R-max 0x17\n"
    setup = convert(tmp_path, SIIT + varying + "IPv6-L-offset 14\nIPv6-R-offset 14\n")
    left, right = range(2, 10), range(0x17, 0xF, -1)
    forward, reverse = (expand(setup, direction, 8) for direction in ("forward", "reverse"))
    assert [f[0] for f in forward] == [IPv6Address("2001:2::") + n for n in left]
    assert [f[1] for f in forward] == [IPv6Address("2001:2:0:1000::") + n for n in right]
    assert [f[0] for f in reverse] == [IPv4Address("198.19.0.0") + n for n in right]
    assert [f[1] for f in reverse] == [IPv4Address("198.18.0.0") + n for n in left]


@pytest.mark.parametrize(("text", "left", "right", "step", "bounds"), [
    (MANY_IPV4, IPv4Address("198.18.0.0"), IPv4Address("198.19.0.0"), 1, (2, 65534)),
    (MANY_IPV6, IPv6Address("2001:2::2"), IPv6Address("2001:2:0:8000::2"), 1 << 16, (0, 65535)),
], ids=["ipv4", "ipv6"])  # fmt: skip
def test_router_samples_send_from_all_hosts_to_all_hosts(text, left, right, step, bounds, tmp_path):
    setup = convert(tmp_path, text)
    for direction, hosts in (("forward", (left, right)), ("reverse", (right, left))):
        frames = expand(setup, direction, 3000)
        for index, host in enumerate(hosts):
            offsets = {int(frame[index]) - int(host) for frame in frames}
            assert len(offsets) > 2500
            assert bounds[0] * step <= min(offsets) <= max(offsets) <= bounds[1] * step
            assert {offset % step for offset in offsets} == {0}


def test_nat64_sample_sends_to_the_virtual_address(tmp_path):
    setup = convert(tmp_path, NAT64)
    assert str(setup.technology.params.responder_ipv4) == "198.19.0.2"
    assert str(setup.technology.params.prefix) == "64:ff9b::/96"
    frames, virtual = expand(setup, "forward", 4000), IPv6Address("64:ff9b::198.19.0.2")
    assert {f[:2] for f in frames} == {(IPv6Address("2001:2::2"), virtual)}
    ports = {f[2:] for f in frames}
    assert len(ports) == 4000
    assert all(1024 <= source <= 41023 and 1 <= destination <= 100 for source, destination in ports)
    assert setup.technology.combinations == 4_000_000


def test_nat64_sample_with_many_addresses_enumerates_all_of_them(tmp_path):
    setup = convert(tmp_path, MANY_NAT64)
    frames = expand(setup, "forward", 20_000)
    assert {f[0] for f in frames} <= {IPv6Address("2001:2::2") + (n << 16) for n in range(4000)}
    assert {f[1] for f in frames} <= {IPv6Address("64:ff9b::198.19.0.2") + n for n in range(1000)}
    assert len({f[:2] for f in frames}) == 20_000
    assert {f[2:] for f in frames} == {(0xC020, 7)}
    assert setup.technology.combinations == 4_000_000
    ((net, via),) = setup.technology.make_dut_intent().left.routes.items()
    assert (str(net), str(via)) == ("2001:2::/100", "2001:2:0:f000::2")


def test_address_that_siitperf_does_not_send_to_is_unused(tmp_path):
    setup = convert(tmp_path, NAT64.replace("IPv4-R-Real 0.0.0.0", "IPv4-R-Real 203.0.113.5"))
    assert str(setup.technology.params.responder_ipv4) == "198.19.0.2"
    assert "203.0.113.5 is unused" in (tmp_path / "here" / "run.yaml").read_text()


def test_stateful_nat64_has_source_ports_from_1024_on(tmp_path):
    text = NAT64.replace("Fwd-sport-min 1024", "Fwd-sport-min 1")
    setup = convert(tmp_path, text.replace("max 41023", "max 40000"))
    run, params = setup.settings, setup.technology.params
    assert params.combinations == 4_000_000 == run.procedure.connections.count
    assert (params.initiator_ports.min, params.initiator_ports.max) == (1024, 41023)
    assert "1-40000 are replaced by as many from 1024" in (tmp_path / "here/run.yaml").read_text()
    assert run.benchmarks == ("connection-rate", "throughput")
    assert run.procedure.connections.reading == "pseudorandom"


def test_stateful_nat44_file_has_many_addresses(tmp_path):
    setup = convert(tmp_path, NAT44)
    run, params = setup.settings, setup.technology.params
    assert (run.plugin, str(params.initiator_ipv4)) == ("nat44", "198.18.0.16")
    assert (params.initiator_count, params.responder_count) == (64, 32)
    assert str(params.responder_ipv4) == "198.19.1.0"
    assert run.procedure.connections.count == 4_000_000
    assert run.procedure.connections.reading == "linear"


@pytest.mark.parametrize(("mode", "comment"), [(0, "Without enumeration"), (4, "")])
def test_unsupported_enumeration_becomes_unique_pseudorandom(mode, comment, tmp_path):
    """Commit 40abd02 of siitperf has ``Enumerate-ports 4``, with accounting."""
    setup = convert(tmp_path, NAT64.replace("Enumerate-ports 3", f"Enumerate-ports {mode}"))
    assert setup.technology.params.enumerate_ports == 3
    assert comment in (tmp_path / "here/run.yaml").read_text()


def test_responder_without_setting_reads_a_single_tuple_as_siitperf_does(tmp_path):
    setup = convert(tmp_path, NAT64.replace("Responder-ports 3\n", ""))
    assert setup.settings.procedure.connections.reading == "fixed"


EVERY_FILE = [
    *((text, "siitperf") for text in (SIITPERF, MANY_IPV4, NAT64, NAT44)),
    *((text, "maptperf") for text in (MAPPERF, MAPTPERF)),
]


@pytest.mark.parametrize(("text", "peer"), EVERY_FILE, ids=range(len(EVERY_FILE)))
def test_converted_file_covers_all_parameters_and_can_be_simulated(text, peer, tmp_path):
    convert(tmp_path, text, peer=peer)
    here = tmp_path / "here"
    comments = (here / "run.yaml").read_text().splitlines()
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        start = f"#   {' '.join(line.split())} -> "
        (comment,) = [comment for comment in comments if comment.startswith(start)]
        assert len(comment) > len(start)
    done = v6t(
        *("run", here / "run.yaml", "--testbed", here / "testbed.yaml", "--tester", "sim"),
        *("--reps", 1, "--json", "-o", tmp_path / "out"),
    )
    assert done.status == 0, done
    assert all(r["matched"] is None for r in json.loads(done.out)["results"] if "matched" in r)


@pytest.mark.parametrize(("stateful", "left", "right"), [(0, 4, 6), (1, 6, 4), (1, 4, 4)])
def test_every_known_parameter_of_siitperf_has_a_target(stateful, left, right, tmp_path):
    def make_value(name):
        if name.startswith("MAC"):
            return f"02:00:00:00:00:{'L' in name:02x}"
        if name.endswith(("Real", "Virt")):
            return "2001:2::2" if "6" in name[:4] else f"198.1{8 + ('-R-' in name)}.0.2"
        if "Vers" in name:
            return left if "-L-" in name else right
        if name.endswith("offset"):
            return 2 if name.startswith("IPv4") else 14
        if "var" in name:
            return 0
        fixed = {"Stateful": stateful, "Enumerate-ips": 0, "Enumerate-ports": 3}
        return fixed.get(name, 9 if name.endswith("max") else 1)

    names, path = siitperf.KNOWN_PARAMETERS, tmp_path / "siitperf.conf"
    path.write_text("".join(f"{name} {make_value(name)}\n" for name in names))
    targets = siitperf.read_siitperf(path).parameter_targets
    assert [parameter.name for parameter, _ in targets] == list(names)
    assert [parameter.name for parameter, target in targets if not target] == []


def test_unknown_parameter_gives_a_warning(tmp_path):
    done = run_init(tmp_path, SIITPERF + "IP-L-Ver 6\n")
    assert done.status == 0
    assert "line 27: IP-L-Ver " in done.err and "IP-L-Vers?" in done.err
    assert "IP-L-Ver 6 ->" in (tmp_path / "here" / "run.yaml").read_text()


INVALID = "invalid-foreign-file"
NARROW = NAT64.replace("-min 1024\nFwd-sport-max 41023", "-min 1\nFwd-sport-max 39990")


@pytest.mark.parametrize(("text", "code", "place"), [
    ("IP-L-Vers 5\n", INVALID, ":1: IP-L-Vers "),
    ("Num-L-Nets many\nIP-L-Vers 4\nIP-R-Vers 4\n", "not-a-number", ":1: Num-L-Nets "),
    ("Forward 0\nReverse 0\n", INVALID, ""), ("Stateful 2\n", INVALID, ""),
    ("Stateful 1\nIP-L-Vers 4\nIP-R-Vers 6\n", INVALID, ""),
    ("Stateful 3\n", INVALID, ":1: Stateful "),
    ("Stateful 1\nIPv6-R-Virt x\n", "not-an-address", ":2: IPv6-R-Virt "),
    ("IPv4-R-Real ::\nStateful 1\n", "not-an-address", ":1: IPv4-R-Real "),
    ("IPv4-R-Real .inf\nStateful 1\n", "not-an-address", ":1: IPv4-R-Real "),
    ("IPv6-L-Real 1.2.3.4\nStateful 1\n", "not-an-address", ":1: IPv6-L-Real "),
    ("IP-L-Vers\n", INVALID, ":1: "), ("Hello world\n", "wrong-kind-of-file", ""),
    ("IPv6-L-Real nonsense\n", "wrong-kind-of-file", ""),
    ("MAC-L-DUT nonsense\n", "wrong-kind-of-file", ""), (NARROW, "wrong-kind-of-file", "39990"),
    (MANY_NAT64.replace("IPv6-R-offset 14", "IPv6-R-offset 12"), INVALID, ""),
    (SIIT + "Num-R-Nets 256\n", INVALID, ""),
    (NAT64.replace("Num-R-Nets 1", "Num-R-Nets 2"), INVALID, ""),
    (SIIT + "IP-L-var 3\nIP-L-max 9\nIPv6-L-offset 12\n", INVALID, ""),
    (SIIT + "IP-L-var 3\nIP-L-min 3\nIP-L-max 2\n", INVALID, ""),
    (SIIT + "IP-L-var 3\nIP-L-min 3\n", INVALID, "IP-L-max"),
    (SIIT + "IP-L-var 3\nIP-L-max 9\nIPv6-L-offset 15\n", INVALID, "IPv6-L-offset"),
    (NAT44.replace("IPv4-L-offset 2", "IPv4-L-offset 3"), INVALID, "IPv4-L-offset"),
], ids=lambda value: value if len(value) < 60 else "...")  # fmt: skip
def test_invalid_siitperf_file_is_rejected_with_its_line(text, code, place, tmp_path):
    assert place in expect_refusal(run_init(tmp_path, text), code)
    assert list(read_dir(tmp_path)) == ["siitperf.conf"]


def test_invalid_arguments_are_rejected(tmp_path):
    path = tmp_path / "x.conf"
    path.write_text(MAPPERF)
    for words, code in (
        (["--from-siitperf", path, "--from-maptperf", path], "conflicting-options"),
        (["--plugin", "mape-br"], "conflicting-options"),
        (["--from-maptperf", path, "--plugin", "siit"], "wrong-kind-of-file"),
        (["--from-maptperf", tmp_path / "none.conf"], "file-not-found"),
    ):
        expect_refusal(v6t("init", *words, "--dir", tmp_path), code)
