"""For all technologies, the frames follow every policy that a parameter accepts."""

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from pydantic import BaseModel
from v6t.base.errors import UsageError
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.packets.direction import DIRECTIONS
from v6t.packets.walker import locate_headers
from v6t.plugins.ports import HeaderPorts, Policy
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error

from .support import compile_streams, make, read_numbers

COUNT = 100
POLICIES = get_args(Policy)
RANGES = {"hosts": {}, "left_hosts": {}, "right_hosts": {}} | {
    "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.201"},
    "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.201"},
}
"""Parameters that give a range of hosts several hosts."""
PORTS = {"min": 3000, "max": 3099}
ONE_CUSTOMER = {"mape-br": {"ces": 1}, "mapt-br": {"ces": 1}, "lwaftr": {"softwires": 1}}
"""Parameters that make the PSID bits of ports constant."""
WITHOUT_BACKGROUND = ("dslite-aftr", "ipv4aas", "nat46", "nat66")
"""Technologies that reject background traffic."""
FIXED_HOSTS = {"nptv6": {"hosts": {"policy": "fixed"}}}


def list_places(field):
    """Return the directions and header fields in which a parameter appears."""
    prefix, _, port = field.partition("_")
    if port in ("sport", "dport"):
        return [(d, port) for d in {"fw": ["forward"], "rv": ["reverse"]}.get(prefix, DIRECTIONS)]
    ends = ("dst", "src") if field in ("right_hosts", "ipv4_hosts") else ("src", "dst")
    return list(zip(DIRECTIONS, ends, strict=True))


def has_policy(annotation):
    if annotation == Policy:
        return True
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return is_model and "policy" in annotation.model_fields


FIELDS = [
    (name, field, info)
    for name in list_names()
    for field, info in load_technology_type(name).params_model.model_fields.items()
]


def with_policy(technology, field, policy):
    scalar = load_technology_type(technology).params_model.model_fields[field].annotation == Policy
    params = dict(ONE_CUSTOMER.get(technology, {}))
    if field != "hosts":
        params |= FIXED_HOSTS.get(technology, {})
    if field.startswith("bg_"):
        params |= {"n": 2, "m": 1}
    opposite = {"ipv6_hosts": "ipv4_hosts", "ipv4_hosts": "ipv6_hosts"}
    bounds = RANGES.get(opposite.get(field, field) if technology == "clat" else field, PORTS)
    return params | {field: policy if scalar else {"policy": policy, **bounds}}


def read_values(stream, place):
    """Return one header field of the first frames as numbers."""
    frames = Expander(stream).compute_frames(0, COUNT)
    layout = locate_headers(frames[0])
    if place in ("sport", "dport"):
        assert layout.transport == "UDP"
        return read_numbers(frames, layout.start + 2 * (place == "dport"), 2).astype(int).tolist()
    if place == "inner dst":
        return read_numbers(frames, layout.start - 4, 4).astype(int).tolist()
    version, start = layout.networks[0]
    first, octets = (8, 16) if version == 6 else (12, 4)
    at = start + first + octets * (place == "dst")
    return [int.from_bytes(row.tobytes(), "big") for row in frames[:, at : at + octets]]


def assert_order(values, policy):
    steps = np.sign([int(b > a) - int(b < a) for a, b in pairwise(values)])
    up, down = int((steps > 0).sum()), int((steps < 0).sum())
    if policy == "fixed":
        assert up + down == 0
    elif policy == "random":
        assert min(up, down) >= COUNT // 5
    else:
        rising, falling = (up, down) if policy == "inc" else (down, up)
        assert rising + falling == COUNT - 1
        assert falling <= COUNT // 10  # a short range starts again


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("technology", "field"), [(n, f) for n, f, info in FIELDS if has_policy(info.annotation)]
)
def test_policy_of_a_parameter_orders_the_values_in_the_frames(technology, field, policy):
    try:
        plugin = make(technology, **with_policy(technology, field, policy))
    except UsageError as exc:
        assert (exc.code, technology in WITHOUT_BACKGROUND) == ("no-background", True)
        return
    role = "bg" if field.startswith("bg_") else "fg"
    checked = 0
    for direction, place in list_places(field):
        if plugin.stateful and direction == "reverse":
            continue  # the Responder uses the received four-tuples
        for stream in compile_streams(plugin, direction, plugin.rfc_frame_sizes[1]):
            if stream.name.startswith(role):
                values = read_values(stream, place)
                assert_order(values, policy)
                if isinstance(getattr(plugin.params, field), HeaderPorts):
                    assert {*values} <= {*range(3000, 3100)}
                    assert policy == "random" or values[0] == (3099 if policy == "dec" else 3000)
                checked += 1
    assert checked


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_of_hosts_in_several_mappings_orders_the_addresses(policy):
    eam = ("198.18.0.0/26 = 2001:2::/122", "198.18.0.64/26 = 2001:2::40/122",
           "198.18.0.128/25 = 2001:2::80/121", "198.19.0.0/24 = 2001:2:0:1000::/120")  # fmt: skip
    hosts = {"first": "198.18.0.2", "last": "198.18.0.201", "policy": policy}
    plugin = make("siit", eam=eam, ipv6_hosts=hosts)
    for direction, place in list_places("ipv6_hosts"):
        (stream,) = compile_streams(plugin, direction)
        assert_order(read_values(stream, place), policy)


ORDERS = {1: "inc", 2: "dec", 3: "random"}
ENUMERATING = [name for name, field, _ in FIELDS if field == "enumerate_ports"]


def read_tuples(technology, params, places):
    """Return two header fields of the first forward frames, each pair as one number."""
    plugin = make(technology, **params)
    (stream,) = compile_streams(plugin, "forward", plugin.rfc_frame_sizes[1])
    slow, fast = (read_values(stream, place) for place in places)
    return [a << 128 | b for a, b in zip(slow, fast, strict=True)]


MANY_PORTS = {
    "enumerate_ips": 0, "initiator_count": 1, "initiator_ports": {"min": 4096, "max": 4127},
    "responder_ports": {"min": 1, "max": 100},
}  # fmt: skip
MANY_HOSTS = {
    "enumerate_ports": 0, "initiator_count": 32, "responder_count": 4,
    "initiator_ipv4": "198.18.0.32", "initiator_ipv6": "2001:2::20",
}  # fmt: skip


@pytest.mark.parametrize("mode", ORDERS)
@pytest.mark.parametrize("technology", ENUMERATING)
@pytest.mark.parametrize("enumerated", ["enumerate_ports", "enumerate_ips"])
def test_enumeration_orders_the_values_in_the_frames(enumerated, technology, mode):
    fields = load_technology_type(technology).params_model.model_fields
    is_tunnel, of_ports = technology == "dslite-aftr", enumerated == "enumerate_ports"
    params = {n: v for n, v in (MANY_PORTS if of_ports else MANY_HOSTS).items() if n in fields}
    params |= {enumerated: mode, **({"responder_count": 1} if of_ports and is_tunnel else {})}
    hosts = ("inner dst" if is_tunnel else "dst", "src")
    values = read_tuples(technology, params, ("dport", "sport") if of_ports else hosts)
    assert_order(values, ORDERS[mode])
    assert len(set(values)) == COUNT


def test_enumeration_upwards_of_unaligned_addresses_is_refused_with_the_address():
    params = {"enumerate_ports": 0, "enumerate_ips": 1, "initiator_count": 3, "responder_count": 2}
    with expect_error("beyond-trex", mentions="198.18.0.2") as refusal:
        read_tuples("nat44", params, ("dst", "src"))
    assert "3323068418" not in refusal.value.message


@pytest.mark.parametrize(
    ("technology", "field"),
    [
        (n, f)
        for n, f, i in FIELDS
        if isinstance(i.get_default(call_default_factory=True), BaseModel)
    ],
)
def test_nested_parameter_given_in_part_keeps_the_other_defaults(technology, field):
    model = load_technology_type(technology).params_model
    default = getattr(model(), field)
    for name in type(default).model_fields:
        validated = model.model_validate({field: {name: getattr(default, name)}})
        assert getattr(validated, field) == default
