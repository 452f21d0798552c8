"""Alternative values of every technology's parameters, and the frames and plans that they change.

A parameter belongs either to the tester, so that a correct device emits the same frames for the same input, or to the
device configuration (the intent), which every driver must use or reject.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_network
from typing import Any, Literal, get_args, get_origin

import numpy as np
from pydantic import BaseModel
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import accepts_any_technology, can_configure
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.registry import list_driver_names, load_driver_type, make_driver
from v6t.intent.device import DeviceIntent, PartIntent
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.plugins.base import Technology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

Values = Mapping[str, Any]

ROWS, SIZES = 8, (128, 1518)
NO_EA_BITS = {"rule_ipv4": "192.0.2.18/32", "rule_ipv6": "2001:db8:12:3400::/56",
              "ea_len": 0, "psid_len": 8}  # fmt: skip
ONE_SOFTWIRE = {"initiator_count": 1, "responder_count": 1, "enumerate_ips": 0}
FEW_PORTS = {"min": 4096, "max": 4111}
MANY_CONNECTIONS = {"initiator_count": 4, "responder_count": 2, "enumerate_ips": 3,
                    "initiator_ports": FEW_PORTS}  # fmt: skip
ONE_CE = {"ea_len": 8, "ce_psid": 0, "rule_ipv6": "2001:db8:ce::/56"}


@dataclass(frozen=True)
class Base:
    """Technology with parameters, of which tests change one at a time."""

    plugin: str
    params: Values = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        return " ".join([self.plugin, *(f"{k}={v}" for k, v in self.params.items())])

    def make_technology(self, **changes: Any) -> Technology:
        kind = load_technology_type(self.plugin)
        return kind(kind.params_model(**{**self.params, **changes}))


BASES = (
    Base("clat"), Base("dns64"), Base("dns64", {"upstream": "ipv6"}),
    Base("dslite-aftr"), Base("dslite-aftr", ONE_SOFTWIRE), Base("ipv4-router"), Base("ipv6-router"),
    *(Base("ipv4aas", {"variant": v}) for v in ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t")),
    Base("lwaftr", {"softwires": 64}), Base("lwb4"),
    *(Base(plugin, params) for plugin in ("mape-br", "mapt-br")
      for params in ({}, {**NO_EA_BITS, "psid": 0x34, "ces": 1})),
    *(Base(plugin, params) for plugin in ("mape-ce", "mapt-ce")
      for params in ({}, {**NO_EA_BITS, "ce_ipv4": "192.0.2.18", "ce_psid": 0x34}, ONE_CE)),
    Base("nat44"), Base("nat44", MANY_CONNECTIONS), Base("nat46"), Base("nat64"), Base("nat66"),
    Base("nptv6"), Base("siit"), Base("siit", {"prefix": "2001:db8:64::/96"}),
    Base("siit", {"eam": (), "prefix": "2001:db8:64::/96"}),
)  # fmt: skip

FOUR_RESPONDERS = {**MANY_CONNECTIONS, "responder_count": 4}
POOL_ADDRESSES = ("198.19.0.77", "2001:2:0:2::77")
SECOND_DOMAIN = {"rule_ipv6": "2001:db8:cf::/51", "rule_ipv4": "198.51.100.0/24",
                 "ea_len": 13, "ces": 10}  # fmt: skip
# Values of parameters whose neighbouring values are invalid, with other parameters that they require. Bases may reject
# some of several values.
VALUES: Mapping[str, Sequence[Values]] = {
    "dut_left_ipv6": [{"dut_left_ipv6": "2001:db8:aa::1/64", "tester_left_ipv6": "2001:db8:aa::2"}],
    "clat_ipv4": [{"clat_ipv4": "198.18.0.0/25", "clat_ipv6": "2001:2:0:2::/121"}],
    "eam": [
        {"eam": [{"ipv4": "198.18.0.0/24", "ipv6": "2001:2::/120"},
                 {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1001::/120"}]},
    ],
    "prefix": [{"prefix": "2001:db8:65::/96"}],
    # stateful
    "initiator_count": [FOUR_RESPONDERS],
    "responder_count": [{**FOUR_RESPONDERS, "responder_count": 8}],
    "initiator_offset": [{**FOUR_RESPONDERS, "initiator_offset": 8}],
    "enumerate_ports": [{"enumerate_ports": 1, "enumerate_ips": i} for i in (0, 1)],
    "enumerate_ips": [{**FOUR_RESPONDERS, "enumerate_ips": 1, "enumerate_ports": 1}],
    "pool_first": [{"pool_first": first} for first in POOL_ADDRESSES],
    "pool_count": [{"pool_first": first, "pool_count": 2} for first in POOL_ADDRESSES],
    "port_block": [{"port_block": 2000, "initiator_ports": {"min": 4096, "max": 4200}}],
    # MAP
    "rule_ipv4": [
        {"rule_ipv4": "192.0.2.0/25", "ea_len": 10},
        {"rule_ipv4": "192.0.2.19/32"},
        {"rule_ipv4": "192.0.2.128/25", "ea_len": 7},
        {"rule_ipv4": "192.0.2.19/32", "ce_ipv4": "192.0.2.19"},
    ],
    "ea_len": [{"ea_len": 10}, {"ea_len": 8, "psid_len": None, "ce_psid": 0}],
    "psid_offset": [{"psid_offset": 4}, {"psid_offset": 2, "initiator_ports": FEW_PORTS}],
    "psid_len": [{"psid_len": 5}, {"psid_len": 7}, {"psid_len": 4, "initiator_ports": FEW_PORTS}],
    "ces": [{"ces": 500}, {"ces": "all"}],
    "domains": [{"domains": [SECOND_DOMAIN]}],
    # DNS64
    "names": [{"names": "64.0.0.0/3"}],
    # two devices
    "public_ipv4": [{"public_ipv4": "192.0.2.36"}],
    "public_count": [{"public_ipv4": "198.19.0.77", "public_count": 2}],
}  # fmt: skip
# Driver options with which a driver uses more of the device configuration.
OPTIONS: Mapping[str, Values] = {"ip6-tunnel": {"checks": True}}
# Parameters that name files, and parameters that set others (tests/plugins/test_tuples.py).
SKIPPED = {"eam_file", "binding_table", "subscribers", "connections_per_subscriber"}

# Parameters with one valid value, because the technology does not support background traffic.
FIXED: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("dslite-aftr", "ipv4aas", "nat46", "nat66"), frozenset({"n", "m", "bg_sport", "bg_dport"})
)


def list_other_values(value: Any, kind: Any) -> Iterator[Any]:
    """Yield other values of a type, similar to a value; some may be invalid."""
    if kind is bool:
        yield not value
    elif get_origin(kind) is Literal:
        yield from (other for other in get_args(kind) if other != value)
    elif isinstance(value, BaseModel):
        fields = type(value).model_fields
        for name, now in value:
            for other in list_other_values(now, fields[name].annotation):
                yield {**value.model_dump(), name: other}
    elif isinstance(value, (IPv4Interface, IPv6Interface)):
        yield from (f"{value.ip + step}/{value.network.prefixlen}" for step in (1, 8))
    elif isinstance(value, (str, IPv4Network, IPv6Network)):
        with suppress(ValueError):
            net = ip_network(value)
            yield from (f"{net[0] + n * net.num_addresses}/{net.prefixlen}" for n in (1, 2))
        yield f"{value}"[:-2] + "77"  # a MAC address
    elif value is not None:
        with suppress(TypeError):
            yield from (value + 1, value - 1)


@cache
def list_accepted(base: Base, name: str) -> list[tuple[Values, Technology]]:
    """List accepted alternative values of a parameter, each with its technology.

    Of values that are similar to the current one, the first is enough.
    """
    model = load_technology_type(base.plugin).params_model
    now, kind = getattr(base.make_technology().params, name), model.model_fields[name].annotation
    similar = [{name: other} for other in list_other_values(now, kind)]
    accepted: list[tuple[Values, Technology]] = []
    for values in VALUES.get(name, similar):
        with suppress(UsageError, ValueError):
            accepted.append((values, base.make_technology(**values)))
        if accepted and name not in VALUES and get_origin(kind) is not Literal:
            break
    return accepted


# Direction, frames, initial frames of their connections, rows of the state table.
Batch = tuple[Direction, Any, Any, Any]


def make_frames(
    base: Base, values: Values, sizes: Sequence[int] = SIZES, dfs: Sequence[bool] = (True, False)
) -> list[Batch]:
    """Return input frames of every class, direction and size, with and without the DF bit."""
    all_batches: list[Batch] = []
    for df in dfs:
        technology: Any = base.make_technology(**{**values, "df": df})
        learned = None
        if technology.stateful:
            public, server = technology.params.public_pool, technology.params.responder
            row = (
                public.first.packed + server.packed + public.ports.min.to_bytes(2, "big") + b"\0\7"
            )
            learned = np.tile(np.frombuffer(row, dtype=np.uint8), (ROWS, 1))
        for size in sizes[: 1 if technology.stateful else 2]:
            opening: Any = None
            with suppress(UsageError):
                for direction in DIRECTIONS:
                    traffic = technology.build_traffic(direction, technology.make_frame_pair(size))
                    streams = compile_traffic(traffic).streams
                    selected = [s for s in streams if s.name == "fg" or not technology.stateful]
                    batches = [Expander(stream).compute_frames(0, ROWS) for stream in selected]
                    opening = batches[0] if opening is None else opening
                    all_batches += [(direction, rows, opening, learned) for rows in batches]
    return all_batches


def compute_output(technology: Any, batches: Sequence[Batch]) -> list[bytes | None]:
    """Return what a correct device emits for each input frame; None where it drops the frame."""
    out: list[bytes | None] = []
    for direction, rows, opening, learned in batches:
        if technology.stateful:
            expected = technology.expect_for_connections(direction, rows, opening, learned)
        else:
            expected = technology.expect(direction, rows)
        frames = zip(expected.frames, expected.length.tolist(), strict=True)
        out += [row[:length].tobytes() if length else None for row, length in frames]
    return out


@dataclass(frozen=True)
class Device:
    """Driver with base parameters that it supports."""

    loaded_driver: Any
    base: Base


# A driver and the intent that it configures.
Unit = tuple[Any, DeviceIntent]


def list_units(driver: Any, intent: DeviceIntent) -> list[Unit]:
    """Return the driver with its intent, or the parts of a chain with theirs."""
    driver.check_intent(intent)
    if not driver.is_chain:
        return [(driver, intent)]
    return [(part.driver, part.intent) for part in driver.get_parts(intent)]


_PLANS: dict[tuple[str, ...], Any] = {}


def describe_plan(driver: Any, intent: DeviceIntent) -> Any:
    """Return all commands of a driver on a device; for a reference part, its parameters.

    Raises:
        UsageError: The driver rejects the intent.
    """
    if not driver.configures_device:
        return repr(intent)
    options = driver.options.model_dump_json()
    key = (driver.name, options, str(driver.chain_membership), repr(intent))
    if key not in _PLANS:
        plan = driver.plan(intent, driver.make_example_facts(intent))
        _PLANS[key] = [(s.command, s.text) for s in (*plan.steps, *plan.flush)]
    return _PLANS[key]


def list_devices(base: Base) -> Iterator[Device]:
    """Yield every driver that supports a technology, and every chain with one part changed."""
    for name in list_driver_names():
        kind = load_driver_type(name)
        if not kind.configures_device or not can_configure(name, base.plugin):
            continue
        options = OPTIONS.get(name, {})
        if not kind.is_chain:
            yield from _find_devices(name, base, options)
            continue
        yield Device(make_driver(name, {}), base)
        intent = base.make_technology().make_dut_intent()
        for part in (*intent.parts, *intent.alternatives):
            for driver in list_driver_names():
                if driver != part.driver and _can_be_part(driver, part):
                    # not every part accepts the options
                    for options in (OPTIONS.get(driver, {}), {}):
                        chosen = {"driver": driver, "options": options}
                        devices = list(_find_devices(name, base, {"parts": {part.name: chosen}}))
                        yield from devices
                        if devices:
                            break


def _can_be_part(name: str, part: PartIntent) -> bool:
    kind = load_driver_type(name)
    if accepts_any_technology(name) or not kind.configures_device:
        return False
    try:
        kind.check_supported(part.intent, in_chain=True)
    except UsageError:
        return False
    return True


def _find_devices(driver: str, base: Base, options: Values) -> Iterator[Device]:
    """Yield the device with parameters that its driver accepts, following hints of its errors."""
    for _ in range(6):
        device = Device(make_driver(driver, options), base)
        try:
            for unit in list_units(device.loaded_driver, base.make_technology().make_dut_intent()):
                describe_plan(*unit)
        except UsageError as exc:
            # without hints, use the defaults that `v6t run` applies
            overrides = device.loaded_driver.get_parameter_overrides(base.plugin)
            params = exc.params or {n: override.value for n, override in overrides.items()}
            if {**base.params, **params} == dict(base.params) and not exc.dut_params:
                return
            options = {**options, **exc.dut_params}
            base = Base(base.plugin, {**base.params, **params})
        else:
            yield device
            return
