"""Technologies made of parts hand every parameter on, or refuse it: the devices or the frames are others then."""

from __future__ import annotations

import ipaddress
from typing import Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from v6t.base.errors import UsageError
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.plugins.nat46 import Nat46

LOW_PORTS = {"initiator_ports": {"min": 1000, "max": 1100}}
VARIANTS = get_args(Ipv4aasParams.model_fields["variant"].annotation)
COMPOSED = {"dslite-aftr": (DsLiteAftr, {}), "nat46": (Nat46, {})} | {
    variant: (Ipv4aas, {"variant": variant}) for variant in VARIANTS
}


def change(field, value):
    """Another value of a parameter."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return next(choice for choice in get_args(kind) if choice != value)
    if value is None:
        return 2 if int in get_args(kind) else "192.0.2.77"
    if isinstance(value, bool):
        return not value
    if isinstance(value, BaseModel):
        return {"min": value.min, "max": value.max - 1}
    if isinstance(value, ipaddress.IPv4Interface | ipaddress.IPv6Interface):
        return f"{value.ip + 2}/{value.network.prefixlen + 1}"
    if not isinstance(value, str):
        return value + 1
    if value.count(":") == 5:
        return f"{value[:-1]}9"  # a MAC address
    net = ipaddress.ip_network(value)
    return f"{net.network_address + net.num_addresses}/{net.prefixlen}"


def effect(kind, given):
    """What the devices must be and what is sent, or the code of the error."""
    try:
        technology = kind(kind.params_model(**given))
        sizes = technology.frame_pair(technology.default_frame_sizes[0])
        sent = [technology.traffic(direction, sizes) for direction in ("forward", "reverse")]
        return technology.dut_intent(), sent
    except UsageError as exc:
        return exc.code
    except ValidationError as exc:
        return str(exc)


@pytest.mark.parametrize(
    ("technology", "name"),
    [(key, name) for key, (kind, _) in COMPOSED.items() for name in kind.params_model.model_fields],
)
def test_parameter_of_a_composed_technology_has_an_effect(technology, name):
    kind, given = COMPOSED[technology]
    field = kind.params_model.model_fields[name]
    changed = {name: change(field, given.get(name, field.get_default()))}
    assert any(
        effect(kind, base) != effect(kind, {**base, **changed})
        for base in (given, {**given, **LOW_PORTS})
    )
