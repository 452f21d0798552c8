"""TTL values that expire within the device."""

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import can_configure
from v6t.core.config.plugins import list_names as plugin_names
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.duts.registry import list_driver_names as driver_names
from v6t.drivers.duts.registry import load_driver_type
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role


def make_run(plugin, driver, **params):
    return resolve_setup(
        plugin=plugin,
        params={k: str(v) for k, v in params.items()},
        tester="embedded",
        dut=driver,
        benchmarks=["connection-rate" if load_technology_type(plugin).stateful else "throughput"],
    )


def smallest_ttl(plugin, driver, **params):
    for ttl in range(2, 12):
        try:
            make_run(plugin, driver, **params, ttl=ttl)
        except UsageError as error:
            assert error.params["ttl"] > ttl
        else:
            return ttl
    raise AssertionError


def pairs():
    """List every technology with every device that it can be measured on."""
    for driver in sorted(driver_names()):
        kind = load_driver_type(driver)
        for plugin in sorted(plugin_names()):
            technology = load_technology_type(plugin)
            if technology.stateful or technology.exchange != "frames":
                continue
            if kind.configures_device and can_configure(driver, plugin):
                yield plugin, driver


@pytest.mark.parametrize(
    ("plugin", "driver", "params", "ttl"),
    [
        ("siit", "tayga", {}, 4),
        ("siit", "tayga", {"orientation": "nat46"}, 4),
        ("siit", "nat46", {}, 3),
        ("siit", "jool", {}, 2),
        ("siit", "reference", {}, 2),
        ("nat64", "tayga-nftables", {}, 4),
        ("nat44", "nftables", {}, 2),
        ("nat46", "chain", {}, 5),
        ("dslite-aftr", "chain", {}, 3),
        ("ipv4aas", "chain", {"variant": "464xlat"}, 7),
        ("ipv4aas", "chain", {"variant": "map-e"}, 4),
        ("ipv4aas", "chain", {"variant": "ds-lite"}, 4),
    ],
)
def test_ttl_must_leave_the_device(plugin, driver, params, ttl):
    assert smallest_ttl(plugin, driver, **params) == ttl


@pytest.mark.parametrize(("plugin", "driver"), list(pairs()))
def test_frames_with_an_accepted_ttl_are_expected_to_arrive(plugin, driver):
    run = make_run(plugin, driver, ttl=smallest_ttl(plugin, driver))
    sizes = run.technology.make_sizes(run.settings.frame_sizes[0])
    for direction in DIRECTIONS:
        traffic = run.technology.build_sized_traffic(direction, sizes)
        roles = {each.name: each.role for each in traffic.classes}
        for stream in compile_traffic(traffic).streams:
            if roles[stream.name] is Role.FOREGROUND:
                frames = Expander(stream).frames(0, 4)
                assert (run.oracle.expect(direction, frames).length > 0).all()
