"""Warnings about the tester, its capacity and the testbed."""

from contextlib import nullcontext

import pytest
from v6t.core.config.plugins import list_names
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import (
    list_result_warnings,
    list_setting_warnings,
    list_tester_warnings,
)
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve

OTHER_MAC, OWN_MAC = "3c:fd:fe:00:00:13", "3c:fd:fe:00:00:03"
PORT = {"index": 1, "driver": "net_i40e", "hw_mac": OWN_MAC.upper()}
DEAF_PORTS = [{"index": n, "prom": "off", "hw_mac": f"3c:fd:fe:00:00:0{n}"} for n in (0, 1)]
SLOW_PORTS = [{"index": n, "speed": 1, "driver": "net_ixgbe"} for n in (0, 1)]
SOUND_PORTS = [
    {"index": 0, "numa": 0, "prom": "off", "hw_mac": "02:00:00:00:01:02"},
    {"index": 1, "numa": 0, "prom": "on", "hw_mac": OWN_MAC},
    {"index": 2, "numa": -1, "prom": "N/A", "hw_mac": "3c:fd:fe:00:00:04"},
]


@pytest.mark.parametrize(("tester", "words"), [
    ({"ports": [{**PORT, "tester_mac": OTHER_MAC}]}, [OWN_MAC.upper()]),
    ({"ports": [{**PORT, "tester_mac": OWN_MAC}]}, []),
    ({"ports": [{**PORT, "tester_mac": OTHER_MAC, "virtual": True}]}, []),
    ({"servers": {"a": {"ports": [{"speed": 5}]}, "b": {"ports": [{"speed": 1}]}}},
     ["server b: line_rate is 5 Gbit/s"]),
    ({"ports": SLOW_PORTS}, ["10 Gbit/s"]),
    ({"ports": [{**p, "speed": 10} for p in SLOW_PORTS]}, []),
    ({"ports": [{**p, "virtual": True} for p in SLOW_PORTS]}, []),
    ({"ports": [{"numa": 0}, {"numa": 1}]}, ["NUMA nodes 0 and 1"]),
    ({"ports": [DEAF_PORTS[1]]}, ["not promiscuous"]),
    ({"ports": DEAF_PORTS}, ["ports 0 and 1 "]),
    ({"clock_source": "hpet"}, ["clock source is hpet"]),
    ({"displaced": {"0": "somebody"}}, ["somebody"]),
    ({"other_cores": {"server": 1, "option": 4}}, ["pair of ports: 1, not 4 "]),
    ({"fence_failed": True}, [""]),
    ({"fence_failed": False}, []),
    *(({"ports": SOUND_PORTS, "clock_source": c}, []) for c in ("tsc", "kvm-clock", None, "")),
])  # fmt: skip
def test_problems_of_the_open_tester_give_warnings(tester, words):
    warnings = list(list_tester_warnings(resolve(plugin="mape-br", tester="sim"), tester))
    assert len(warnings) == len(words)
    assert all(word in text for word, text in zip(words, warnings, strict=True))


def test_lab_port_without_promiscuous_mode_gives_no_warning():
    run = resolve(plugin="mape-br", tester="sim")
    assert not [*list_tester_warnings(run, {"ports": DEAF_PORTS}, in_lab=True)]


def test_port_with_the_address_of_a_link_in_capitals_gives_no_warning():
    run = resolve(plugin="mape-br", tester="sim")
    left = run.links.left.model_copy(update={"tester_mac": OWN_MAC.upper()})
    run = run.model_copy(update={"links": run.links.model_copy(update={"left": left})})
    assert not [*list_tester_warnings(run, {"ports": [{**DEAF_PORTS[0], "hw_mac": OWN_MAC}]})]


def test_default_settings_give_no_warning():
    assert list_setting_warnings(resolve_setup(plugin="mape-br", tester="sim")) == []


SENDING = "sending may take 600 µs longer than a trial of 60 s, but the tester may measure"
FULL_PORTS = {"variant": "map-t", "initiator_ports.min": "4096", "initiator_ports.max": "12031"}


def make_latency_settings(tags):
    return {"latency": {"duration_s": 2.0, "first_tag_s": 0.5, "tags": tags}}


def make_sending_settings(tolerance):
    return {"trial_duration_s": 60, "sending_time_tolerance": tolerance}


def make_settings(plugin, *benchmarks, tester="sim", params=None, dut=None, **procedure):
    return {
        "plugin": plugin, "tester": tester, "benchmarks": benchmarks, "params": params or {},
        "dut": dut, "procedure": procedure,
    }  # fmt: skip


@pytest.mark.parametrize(("settings", "present", "absent"), [
    (make_settings("siit", params={"n": "1", "m": "0"}), ["0 % foreground"], []),
    (make_settings("siit"), [], ["0 % foreground"]),
    (make_settings("mape-br", tester="trex", **make_sending_settings(1.00001)), [SENDING], []),
    (make_settings("mape-br", tester="trex", **make_sending_settings(1.0001)), [], [SENDING]),
    (make_settings("mape-br", **make_sending_settings(1.00001)), [], [SENDING]),
    (make_settings("ipv4-router", tester="trex", dut="cable"), [], ["no driver"]),
    # departures from RFC 8219, RFC 2544 and RFC 9693
    (make_settings("mape-br", loss_tolerance=0.01),
     ["SIMULATED", "DEMONSTRATION", "2 repetitions", "loss tolerance 1.0000%", "2 % longer"], []),
    *((make_settings("mape-br", "latency", **make_latency_settings(n)), [f"latency by {n} tagged"], [])
      for n in (250, 499)),
    (make_settings("mape-br", "latency", **make_latency_settings(500)), [], ["latency by 500 tagged"]),
    (make_settings("dns64", resolution={"timeout_s": 2.0}), ["time out after 2 s"], []),
    (make_settings("nat44", "throughput"), ["phase 1"], ["not validated"]),
    (make_settings("nat44", "capacity"), [], ["phase 1", "not validated"]),
    (make_settings("nat44", "connection-rate", connections={"validate_connections": False, "keep": False}),
     ["not validated"], ["phase 1"]),
    # unusual settings, settings without effect, and two devices
    (make_settings("mape-br", "throughput"), [], ["not measured", "much loss", "no effect"]),
    (make_settings("mape-br", "throughput", latency={"tags": 5}), ["latency is not measured"], []),
    (make_settings("mape-br", "throughput", delay_variation={"duration_s": 5}),
     ["pdv and ipdv are not measured"], []),
    (make_settings("mape-br", "throughput", loss_tolerance=0.5), ["accepts much loss"], []),
    (make_settings("mape-br", "throughput", residual_wait_s=0.001), ["in transit"], []),
    (make_settings("mape-br", "throughput", rate_from="median"),
     ["procedure.rate_from is set, but has no effect"], []),
    (make_settings("mape-br", "latency", latency={"tags": 5}), [], ["not measured", "no effect"]),
    (make_settings("ipv4-router", "flows", flows={"also": ["latency"]}, latency={"tags": 400}),
     [], ["procedure.latency is set"]),
    (make_settings("ipv4-router", "flows", flows={"also": []}, latency={"tags": 400}),
     ["procedure.latency is set"], []),
    (make_settings("ipv4aas", tester="embedded", params=FULL_PORTS),
     ["CE is stateful", "97%", "8192"], []),
    (make_settings("ipv4aas", tester="embedded"), ["PE is stateful"], ["port set"]),
])  # fmt: skip
def test_unusual_settings_give_warnings(settings, present, absent):
    setup = resolve_setup(**settings)
    text = " ".join([*list_setting_warnings(setup), *list_result_warnings(setup)])
    assert [words for words in present if words not in text] == []
    assert [words for words in absent if words in text] == []


@pytest.mark.parametrize("tester", ["embedded", "sim"])
def test_missing_ssh_client_gives_a_warning(tester, tmp_path, monkeypatch):
    """A dry run, which needs no ssh, warns too; without a driver there is no warning."""
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: linux-router, options: {ssh: {lab: elsewhere}}}")
    remote = resolve_setup(None, bed, plugin="ipv4-router", tester=tester)
    local = resolve_setup(plugin="ipv4-router", tester=tester, dut="linux-router")
    text = "ssh is not installed, but the device is reached over it: apt-get install openssh-client"
    assert text not in list_setting_warnings(remote)
    monkeypatch.setenv("PATH", "/nowhere")
    assert (text in list_setting_warnings(remote)) is (tester == "embedded")
    assert text not in list_setting_warnings(local)


def resolve_trex(*benchmarks, params=None, **options):
    """Resolve a run in TRex's lab."""
    return resolve_setup(
        plugin="mape-br", tester="trex", tester_options={"lab": "true", **options},
        params=params or {}, benchmarks=benchmarks, modes=("bidirectional", "forward"),
    )  # fmt: skip


def test_benchmarks_with_lower_maximum_rate_give_warnings():
    """Otherwise, the benchmark would be skipped after hours, at the measured throughput."""
    setup = resolve_trex("throughput", "latency", "pdv", "ipdv", "system-recovery")
    warnings = [text for text in list_setting_warnings(setup) if "up to" in text]
    assert [text.split(":")[0] for text in warnings] == ["ipdv", "system-recovery"]
    assert all("2,500,000 fps" in text for text in warnings)
    slower = make_setup(setup.settings.model_copy(update={"line_rate_bps": 2e9}))
    assert not any("up to" in text for text in list_setting_warnings(slower))


@pytest.mark.parametrize(("options", "refused"), [
    ({}, False), ({"counting": "ports"}, True), ({"counting": "trailer"}, False),
])  # fmt: skip
def test_negative_traffic_needs_a_tester_that_identifies_frames(options, refused):
    resolve_trex("throughput", **options)
    error = expect_error("unsupported-by-tester", path=["procedure"])
    with error if refused else nullcontext():
        resolve_trex("throughput", params={"negative_percent": "5"}, **options)


def list_prefix_warnings(plugin, params):
    setup = resolve_setup(plugin=plugin, params=params, tester="sim", dut="reference")
    return [text for text in list_setting_warnings(setup) if "RFC 6052" in text]


@pytest.mark.parametrize(("plugin", "params", "address"), [
    ("clat", {"plat_prefix": "64:ff9b::/96"}, "198.19.0.2"),
    ("nat64", {"prefix": "wkp"}, "198.19.0.2"),
    ("mapt-br", {"dmr": "64:ff9b::/96"}, "203.0.113.56"),
    ("mapt-ce", {"dmr": "64:ff9b::/96"}, "203.0.113.56"),
    ("nat46", {"clients_prefix": "64:ff9b::/96"}, "198.18.0.2"),
    ("dns64", {"prefix": "64:ff9b::/96", "names": "10.0.0.0/8"}, "10.0.0.0"),
    ("ipv4aas", {"prefix": "64:ff9b::/96"}, "198.19.0.2"),
    ("siit", {"prefix": "64:ff9b::/96", "ipv6_hosts.first": "10.0.0.1"}, "10.0.0.1"),
])  # fmt: skip
def test_private_address_with_well_known_prefix_gives_a_warning(plugin, params, address):
    assert len([text for text in list_prefix_warnings(plugin, params) if address in text]) == 1


@pytest.mark.parametrize(("plugin", "params"), [
    *((name, {}) for name in list_names()),
    ("nat64", {"prefix": "wkp", "responder_ipv4": "9.9.9.9"}), ("siit", {"prefix": "64:ff9b::/96"}),
])  # fmt: skip
def test_other_prefixes_and_global_addresses_give_no_warning(plugin, params):
    assert list_prefix_warnings(plugin, params) == []
