"""Settings of technologies in complete runs: addresses, TTL, variants, connections and hints."""

import json
import shlex

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import can_configure
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_refusal
from v6t.tests.settings import resolve


@pytest.mark.parametrize("background", [
    "tester: '2001:2:0:b000::2%eth0'", "device: '2001:2:0:b000::1%eth0/64'",
    "tester: '2001:2:0:b009::2'", "device: '2001:db8:a::1/64', tester: '2001:db8:a::1'",
    "device: '2001:2:0:f000::9/64', tester: '2001:2:0:f000::8'",
    "device: '2001:2:0:f001::9/64', tester: '2001:2:0:f001::8'",
])  # fmt: skip
def test_background_vlan_of_the_testbed_file_is_checked(tmp_path, background):
    testbed = tmp_path / "testbed.yaml"
    left = f"left: {{vlan: 100, background: {{vlan: 200, {background}}}}}"
    testbed.write_text(f"links:\n  {left}\n  right: {{vlan: 100, background: {{vlan: 200}}}}\n")
    expect_refusal(v6t("run", "ipv6-router", "--testbed", testbed, "--dry-run"))


def test_parameter_of_a_run_file_is_named_with_its_line(tmp_path):
    run = tmp_path / "run.yaml"
    run.write_text("plugin: mape-br\nparams:\n  tester_left_ipv6: 2001:db8:9::2\n")
    message = expect_refusal(v6t("run", run, "--dry-run"), "invalid-intent")
    assert message.startswith(f"v6t: {run}:3: ")


def make_ttl_setup(plugin, driver, **params):
    benchmark = "connection-rate" if load_technology_type(plugin).stateful else "throughput"
    params = {k: str(v) for k, v in params.items()}
    return resolve_setup(plugin=plugin, params=params, dut=driver, benchmarks=[benchmark])


def find_smallest_ttl(plugin, driver, **params):
    for ttl in range(2, 12):
        try:
            make_ttl_setup(plugin, driver, **params, ttl=ttl)
        except UsageError as error:
            assert error.params["ttl"] > ttl
        else:
            return ttl
    raise AssertionError


@pytest.mark.parametrize(("plugin", "driver", "params", "ttl"), [
    ("siit", "tayga", {}, 4), ("siit", "tayga", {"orientation": "nat46"}, 4),
    ("siit", "nat46", {}, 3), ("siit", "jool", {}, 2), ("siit", "reference", {}, 2),
    ("nat64", "tayga-nftables", {}, 4), ("nat44", "nftables", {}, 2), ("nat46", "chain", {}, 5),
    ("dslite-aftr", "chain", {}, 3), ("ipv4aas", "chain", {"variant": "464xlat"}, 7),
    ("ipv4aas", "chain", {"variant": "map-e"}, 4), ("ipv4aas", "chain", {"variant": "ds-lite"}, 4),
])  # fmt: skip
def test_ttl_too_small_for_the_device_is_rejected(plugin, driver, params, ttl):
    assert find_smallest_ttl(plugin, driver, **params) == ttl


def list_stateless_pairs():
    """List every stateless technology with every device that it can be measured on."""
    technologies = {name: load_technology_type(name) for name in sorted(list_names())}
    return [
        (plugin, driver)
        for driver in sorted(list_driver_names())
        for plugin, technology in technologies.items()
        if not technology.stateful and technology.exchange == "frames"
        and load_driver_type(driver).configures_device and can_configure(driver, plugin)
    ]  # fmt: skip


@pytest.mark.parametrize(("plugin", "driver"), list_stateless_pairs())
def test_frames_with_an_accepted_ttl_are_expected_to_arrive(plugin, driver):
    setup = make_ttl_setup(plugin, driver, ttl=find_smallest_ttl(plugin, driver))
    sizes = setup.technology.make_sizes(setup.settings.frame_sizes[0])
    for direction in DIRECTIONS:
        traffic = setup.technology.build_sized_traffic(direction, sizes)
        roles = {each.name: each.role for each in traffic.classes}
        for stream in compile_traffic(traffic).streams:
            if roles[stream.name] is Role.FOREGROUND:
                frames = Expander(stream).compute_frames(0, 4)
                assert (setup.oracle.expect(direction, frames).length > 0).all()


@pytest.mark.parametrize(("variant", "parts"), [
    ("464xlat", ["CE clat", "PE plat"]), ("ds-lite", ["CE b4", "PE softwire", "PE nat"]),
    ("lw4o6", ["CE napt", "CE ce", "PE lwaftr"]), ("map-e", ["CE napt", "CE ce", "PE br"]),
    ("map-t", ["CE napt", "CE ce", "PE br"]),
])  # fmt: skip
def test_variant_needs_no_further_option(variant, parts):
    done = v6t("run", "ipv4aas", "--variant", variant, "--dry-run", "--json")
    assert done.status == 0, done.err
    planned = json.loads(done.out)["device_must_be"]["parts"]
    assert [f"{part['device']} {part['name']}" for part in planned] == parts


def test_default_variant_is_464xlat_on_the_embedded_lab():
    run = resolve(plugin="ipv4aas")
    assert (run.tester.kind, run.dut.driver, run.frame_sizes) == ("embedded", "chain", (84,))
    assert resolve(plugin="ipv4aas", params={"variant": "map-e"}).frame_sizes == (104,)
    assert "conntrack -D -s 192.168.255.0/24" in make_setup(run).flush_description


SUBSCRIBERS = {"subscribers": "1000", "connections_per_subscriber": "200"}


@pytest.mark.parametrize("preset", ["quick", "rfc"])
@pytest.mark.parametrize(("plugin", "dut", "options"), [
    ("nat44", "nftables", {}), ("nat64", "jool", {}), ("dslite-aftr", "vpp", {"start": "true"}),
])  # fmt: skip
def test_connection_count_with_subscribers_is_their_product_or_given(plugin, dut, options, preset):
    settings = {"dut_params": options, "params": SUBSCRIBERS, "preset": preset}
    run = resolve(plugin=plugin, dut=dut, **settings)
    assert run.procedure.connections.count == 200_000
    run = resolve(plugin=plugin, dut=dut, **settings, procedure={"connections.count": "9"})
    assert run.procedure.connections.count == 9


def follow_hints(technology, *settings):
    """Follow the printed hints until the run is valid; return how many were followed."""
    options = [word for setting in settings for word in ("--set", setting)]
    command = ["run", technology, "--tester", "sim", "--dry-run", *options]
    for count in range(4):
        done = v6t(*command)
        if done.status == 0:
            return count
        assert "try: " in done.err, done.err
        command += shlex.split(done.err.partition("try: ")[2].splitlines()[0])
    raise AssertionError(f"the hints do not end: {done.err}")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    ["subscribers=1000"], ["connections_per_subscriber=200"], ["initiator_count=1000"],
    ["initiator_count=1", "responder_count=1", "enumerate_ips=3"],
    ["initiator_count=8", "enumerate_ips=1"],
    ["enumerate_ports=0", "enumerate_ips=0", "initiator_count=1", "responder_count=1"],
    ["initiator_ports={min: 1000, max: 2000}"],
    ["subscribers=24000", "connections_per_subscriber=180"],
    ["subscribers=30000", "connections_per_subscriber=60"],
    ["enumerate_ports=1", "enumerate_ips=1", "initiator_count=3", "responder_count=3"],
    ["subscribers=1000", "connections_per_subscriber=200", "pool_count=1"],
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("technology", ["nat44", "nat64", "nat66", "dslite-aftr"])
def test_hints_lead_to_a_valid_run(technology, settings):
    follow_hints(technology, *settings)


@pytest.mark.slow
def test_hint_for_rule_that_contains_the_default_addresses_leads_to_a_valid_run():
    rule = ("rule_ipv6=2001:db8::/31", "rule_ipv4=198.18.0.0/15", "ea_len=25")
    assert follow_hints("mape-br", *rule) == 1
