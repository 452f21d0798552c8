"""Conversion of files of siitperf, Maptperf and Mapperf."""

import json

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.migrate import siitperf
from v6t.tests.core.support import read_sample, tree, v6t
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow

SIITPERF, NAT44, NAT64, MANY_IPV4, MAPPERF = map(
    read_sample, ("siitperf", "nat44", "nat64", "many-ipv4", "mapperf")
)

# version 1.3 of Maptperf spells two names its own way, and has no BR address
MAPTPERF = MAPPERF.replace("DUT-L-IPv6 2001:db8:6::1 # corresponding BR for MAP-E\n", "").replace(
    "Prefix-Length", "Prefx-Length"
)


def taken(tmp_path, text, *arguments, peer="maptperf"):
    """Convert a peer's configuration file and return the resolved run."""
    source = tmp_path / f"{peer}.conf"
    source.write_text(text)
    done = v6t("init", f"--from-{peer}", source, "--dir", tmp_path / "here", *arguments)
    assert done.status == 0, done
    assert done.err == ""
    return resolve(tmp_path / "here" / "run.yaml", tmp_path / "here" / "testbed.yaml")


def test_the_paper_of_mapperf(tmp_path):
    run = taken(tmp_path, MAPPERF)
    plugin = make_setup(run).technology
    p = plugin.params
    assert run.plugin == "mape-br"
    assert (str(p.rule_ipv6), str(p.rule_ipv4), p.ea_len) == (
        *("2001:db8:ce::/51", "192.0.2.0/24"),
        13,
    )
    assert (p.psid_offset, p.ces, p.exclude_network_broadcast) == (0, 1000, True)
    assert str(p.br_address) == "2001:db8:6::1"
    assert (p.fw_sport, p.rv_dport) == ("random", "random")
    assert (p.fw_dport.policy, p.fw_dport.min, p.fw_dport.max) == ("random", 1, 49151)
    assert run.links.left.tester_mac == "ec:f4:bb:ef:98:a0"
    assert run.links.right.dut_mac == "ec:f4:bb:dc:a6:ba"
    assert run.modes == ("bidirectional",)
    assert (run.procedure.repetitions, run.procedure.trial_duration_s) == (20, 60.0)


def test_maptperf_is_map_t_unless_the_plugin_is_named(tmp_path):
    run = taken(tmp_path, MAPTPERF)
    p = make_setup(run).technology.params
    assert (run.plugin, str(p.dmr)) == ("mapt-br", "64:ff9b::/64")
    assert str(p.dut_left_ipv6) == "2001:db8:6::1/64"
    (tmp_path / "e").mkdir()
    assert taken(tmp_path / "e", MAPTPERF, "--plugin", "mape-br").plugin == "mape-br"


def test_the_sample_of_siitperf(tmp_path):
    run = taken(tmp_path, SIITPERF, peer="siitperf")
    p = make_setup(run).technology.params
    assert (run.plugin, p.orientation) == ("siit", "nat64")
    assert str(p.mappings.to_ipv6(p.ipv6_hosts.first)) == "2001:2::2"
    assert str(p.mappings.to_ipv6(p.ipv4_hosts.first)) == "2001:2:0:1000::2"
    assert str(p.bg_ipv4_side) == "2001:2:0:8000::2"
    assert p.fw_sport.policy == "fixed"  # siitperf's default
    assert run.links.left.dut_mac == "a0:36:9f:c5:e6:58"
    assert "RFC 4814" in (tmp_path / "here" / "run.yaml").read_text()


def test_swapped_siitperf_sides_become_nat46(tmp_path):
    turned = SIITPERF.replace("IP-L-Vers 6", "IP-L-Vers 4").replace("IP-R-Vers 4", "IP-R-Vers 6")
    turned = turned.replace("IPv6-L-Virt ::", "IPv6-L-Virt 2001:2:0:1000::2")
    turned = turned.replace("IPv4-L-Real 0.0.0.0", "IPv4-L-Real 198.18.0.9")
    turned = turned.replace("IPv4-R-Virt 0.0.0.0", "IPv4-R-Virt 198.19.0.9")
    p = make_setup(taken(tmp_path, turned, peer="siitperf")).technology.params
    assert p.orientation == "nat46"
    assert str(p.ipv4_hosts.first) == "198.18.0.9"
    assert str(p.mappings.to_ipv6(p.ipv4_hosts.first)) == "2001:2:0:1000::2"
    assert str(p.mappings.to_ipv6(p.ipv6_hosts.first)) == "2001:2:0:8000::2"


EVERY_FILE = [
    *((text, "siitperf") for text in (SIITPERF, MANY_IPV4, NAT64, NAT44)),
    *((text, "maptperf") for text in (MAPPERF, MAPTPERF)),
]


@pytest.mark.parametrize(("text", "peer"), EVERY_FILE, ids=range(len(EVERY_FILE)))
def test_converted_file_covers_all_parameters_and_can_be_simulated(text, peer, tmp_path):
    taken(tmp_path, text, peer=peer)
    here = tmp_path / "here"
    comments = (here / "run.yaml").read_text().splitlines()
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        start = f"#   {' '.join(line.split())} -> "
        (comment,) = [each for each in comments if each.startswith(start)]
        assert len(comment) > len(start)
    done = v6t(
        *("run", here / "run.yaml", "--testbed", here / "testbed.yaml", "--tester", "sim"),
        *("--reps", 1, "--json", "-o", tmp_path / "out"),
    )
    assert done.status == 0, done
    assert all(r["matched"] is None for r in json.loads(done.out)["results"] if "matched" in r)


@pytest.mark.parametrize(("stateful", "left", "right"), [(0, 4, 6), (1, 6, 4), (1, 4, 4)])
def test_every_known_parameter_of_siitperf_has_a_target(stateful, left, right, tmp_path):
    def value(name):
        if name.startswith("MAC"):
            return f"02:00:00:00:00:{'L' in name:02x}"
        if name.endswith(("Real", "Virt")):
            return "2001:2::2" if "6" in name[:4] else f"198.1{8 + ('-R-' in name)}.0.2"
        if "Vers" in name:
            return left if "-L-" in name else right
        if name.endswith("offset"):
            return 2 if name.startswith("IPv4") else 14
        if name == "Stateful":
            return stateful
        if "var" in name or name == "Enumerate-ips":
            return 0
        return {"Enumerate-ports": 3}.get(name, {"max": 9}.get(name[-3:], 1))

    source = tmp_path / "siitperf.conf"
    source.write_text("".join(f"{name} {value(name)}\n" for name in siitperf.KNOWN_PARAMETERS))
    found = siitperf.read_siitperf(source)
    assert [parameter.name for parameter, _ in found.parameter_targets] == list(
        siitperf.KNOWN_PARAMETERS
    )
    assert [parameter.name for parameter, target in found.parameter_targets if not target] == []


def test_stateful_nat64_has_source_ports_from_1024_on(tmp_path):
    text = NAT64.replace("Fwd-sport-min 1024", "Fwd-sport-min 1")
    run = taken(tmp_path, text.replace("max 41023", "max 40000"), peer="siitperf")
    params = make_setup(run).technology.params
    assert params.combinations == 4_000_000 == run.procedure.connections.count
    assert (params.initiator_ports.min, params.initiator_ports.max) == (1024, 41023)
    assert "1-40000 begin at 1024" in (tmp_path / "here/run.yaml").read_text()
    assert run.benchmarks == ("connection-rate", "throughput")
    assert run.procedure.connections.reading == "pseudorandom"


def test_a_stateful_nat44_with_many_addresses(tmp_path):
    run = taken(tmp_path, NAT44, peer="siitperf")
    params = make_setup(run).technology.params
    assert (run.plugin, str(params.initiator_ipv4)) == ("nat44", "198.18.0.16")
    assert (params.initiator_count, params.responder_count) == (64, 32)
    assert str(params.responder_ipv4) == "198.19.1.0"
    assert run.procedure.connections.count == 4_000_000
    assert run.procedure.connections.reading == "linear"


def test_stateful_file_without_enumeration_is_enumerated(tmp_path):
    text = NAT64.replace("Enumerate-ports 3", "Enumerate-ports 0")
    run = taken(tmp_path, text, peer="siitperf")
    assert make_setup(run).technology.params.enumerate_ports == 3
    assert "enumerates neither" in (tmp_path / "here/run.yaml").read_text()


def test_enumeration_impossible_for_trex_is_rejected(tmp_path):
    source = tmp_path / "siitperf.conf"
    ports = ("Fwd-sport-min 1024\nFwd-sport-max 41023", "Fwd-sport-min 1\nFwd-sport-max 39990")
    source.write_text(NAT64.replace(*ports))
    said = expect_refusal(
        v6t("init", "--from-siitperf", source, "--dir", tmp_path / "here"), "wrong-kind-of-file"
    )
    assert "39990" in said
    assert not (tmp_path / "here").exists()


def test_unknown_parameter_gives_a_warning(tmp_path):
    source = tmp_path / "siitperf.conf"
    source.write_text(SIITPERF + "IP-L-Ver 6\n")
    done = v6t("init", "--from-siitperf", source, "--dir", tmp_path / "here")
    assert done.status == 0
    assert "line 27: IP-L-Ver " in done.err
    assert "IP-L-Vers?" in done.err
    assert "IP-L-Ver 6 ->" in (tmp_path / "here" / "run.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("IP-L-Vers 5\n", "invalid-foreign-file", ":1: IP-L-Vers "),
        ("Num-L-Nets many\nIP-L-Vers 4\nIP-R-Vers 4\n", "not-a-number", ":1: Num-L-Nets "),
        ("Forward 0\nReverse 0\n", "invalid-foreign-file", ""),
        ("Stateful 2\n", "invalid-foreign-file", ""),
        ("Stateful 1\nIP-L-Vers 4\nIP-R-Vers 6\n", "invalid-foreign-file", ""),
        ("Stateful 3\n", "invalid-foreign-file", ":1: Stateful "),
        ("Stateful 1\nIPv6-R-Virt x\n", "not-an-address", ":2: IPv6-R-Virt "),
        ("IPv4-R-Real ::\nStateful 1\n", "not-an-address", ":1: IPv4-R-Real "),
        ("IPv4-R-Real .inf\nStateful 1\n", "not-an-address", ":1: IPv4-R-Real "),
        ("IPv6-L-Real 1.2.3.4\nStateful 1\n", "not-an-address", ":1: IPv6-L-Real "),
        ("IP-L-Vers\n", "invalid-foreign-file", ":1: "),
        ("Hello world\n", "wrong-kind-of-file", ""),
        ("IPv6-L-Real nonsense\n", "wrong-kind-of-file", ""),
        ("MAC-L-DUT nonsense\n", "wrong-kind-of-file", ""),
    ],
)
def test_refusals_name_the_line(text, code, place, tmp_path):
    source = tmp_path / "siitperf.conf"
    source.write_text(text)
    done = v6t("init", "--from-siitperf", source, "--dir", tmp_path / "here")
    assert place in expect_refusal(done, code)
    assert list(tree(tmp_path)) == ["siitperf.conf"]


def test_refused_arguments(tmp_path):
    source = tmp_path / "x.conf"
    source.write_text(MAPPERF)
    both = ("--from-siitperf", source, "--from-maptperf", source)
    expect_refusal(v6t("init", *both), "conflicting-options")
    expect_refusal(v6t("init", "--plugin", "mape-br"), "conflicting-options")
    expect_refusal(
        v6t("init", "--from-maptperf", source, "--plugin", "siit", "--dir", tmp_path),
        "wrong-kind-of-file",
    )
    expect_refusal(v6t("init", "--from-maptperf", tmp_path / "none.conf"), "file-not-found")


def test_existing_files_are_not_overwritten(tmp_path):
    source = tmp_path / "mapperf.conf"
    source.write_text(MAPPERF)
    (tmp_path / "run.yaml").write_text("mine")
    expect_refusal(v6t("init", "--from-maptperf", source, "--dir", tmp_path), "file-exists")
    assert (tmp_path / "run.yaml").read_text() == "mine"
    assert not (tmp_path / "testbed.yaml").exists()
