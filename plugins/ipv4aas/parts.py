"""The two devices of each variant as parts with an intent each (DD-01)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from typing import Any, cast

from v6t.intent.device import Address, LinkIntent, Network
from v6t.intent.families import (
    AftrTunnelConfig,
    B4Config,
    ClatConfig,
    DsLiteAftrConfig,
    Nat44Config,
)
from v6t.packets.direction import Direction
from v6t.plugins.base import DeviceIntent, Links, Part, Technology
from v6t.plugins.chain import TAYGA, between, part_params, shared_names, without_ipv6
from v6t.plugins.dslite.softwire import B4, SoftwireEnd
from v6t.plugins.ipv4aas.params import Ipv4aasParams
from v6t.plugins.lwaftr import ALL, LightweightAftr, LwAftrParams
from v6t.plugins.map_ce import LwB4, LwB4Params, MapECe, MapECeParams, MapTCe, MapTCeParams
from v6t.plugins.map_domains import ALL_CES
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.mapt_br import MapTBorderRelay, MapTParams
from v6t.plugins.nat.nat44 import Nat44, Nat44Params
from v6t.plugins.nat.nat64 import Nat64, Nat64Params
from v6t.plugins.siit.params import LOWEST_IPV6_MTU
from v6t.plugins.stateful.params import networks
from v6t.plugins.translation.rfc6052 import embed_network

CE, PE = "CE", "PE"
_INNER = ("02:00:00:00:04:01", "02:00:00:00:04:02")
_INNER_LEFT, _INNER_RIGHT = "192.168.20.1/30", "192.168.20.2/30"


def parts_of(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    """The parts from left to right."""
    return _VARIANTS[params.variant](params, links)


def alternatives_of(params: Ipv4aasParams, parts: Sequence[Part], links: Links) -> tuple[Part, ...]:
    """Return the parts that can stand for several others: an AFTR in one piece."""
    if params.variant != "ds-lite":
        return ()
    _, softwire, nat = parts
    _, near = _middle(params)
    nat44 = cast(Nat44Config, nat.intent.configuration)
    intent = DeviceIntent(
        "dslite-aftr",
        DsLiteAftrConfig(
            aftr=params.tunnel_ipv6,
            first_b4=params.ce_middle_ipv6.ip,
            b4_count=1,
            **{name: getattr(nat44, name) for name in nat44.model_fields_set},
        ),
        Links(near, links.right),
        softwire.intent.left,
        nat.intent.right,
    )
    covered = (softwire.name, nat.name)
    return (Part("aftr", PE, intent, "vpp", stateful=True, replaces=covered),)


def covering(first: Any, count: int) -> IPv4Network:
    """The smallest network that holds so many addresses from the first on."""
    bits = (int(first) ^ (int(first) + count - 1)).bit_length()
    return IPv4Network((int(first) >> bits << bits, 32 - bits))


def _connections(p: Ipv4aasParams) -> dict[str, Any]:
    """What a NAT calls the public addresses and ports."""
    return {"pool_first": p.public_first, "pool_count": p.publics, "pool_ports": p.outside}


def _middle(p: Ipv4aasParams) -> tuple[Any, Any]:
    return between(p.ce_mac, p.pe_mac, p.middle_mtu)


def _nat44(p: Ipv4aasParams, links: Links, **fields: Any) -> DeviceIntent:
    """The NAT44 of either device; IPv4 only."""
    params = part_params(Nat44Params, p, **_connections(p), **fields)
    return without_ipv6(Nat44(params, links).dut_intent())


def _napt(p: Ipv4aasParams, links: Links) -> tuple[Part, Any]:
    """The CE's NAPT to its port set, and the cable behind it as the next part sees it."""
    here, there = between(*_INNER, links.left.mtu)
    intent = _nat44(
        p,
        Links(links.left, here),
        dut_right_ipv4=_INNER_LEFT,
        tester_right_ipv4=_INNER_RIGHT.partition("/")[0],
    )
    return Part("napt", CE, intent, "nftables", stateful=True), there


def _ce(
    p: Ipv4aasParams,
    inner: Any,
    kind: type[Technology],
    params: Any,
    to_ipv4: Direction | None = None,
    behind: Mapping[Network, Address] | None = None,
) -> Part:
    """The CE without its NAPT; it is the plugin turned round: IPv6 is on its right here.

    Args:
        p: of both devices.
        inner: the cable from the NAPT.
        kind, params: the plugin.
        to_ipv4: see :class:`Part`.
        behind: routes of its IPv6 side in place of the plugin's.
    """
    near, _ = _middle(p)
    technology = kind(params, Links(near, inner))
    single = technology.dut_intent()
    to_napt = {IPv4Network(p.public_first): IPv4Interface(_INNER_LEFT).ip}
    intent = replace(
        single,
        configuration=single.configuration.model_copy(update={"ipv6_side": "right"}),
        links=Links(inner, near),
        left=replace(single.right, routes=to_napt),
        right=replace(single.left, routes=behind or single.left.routes),
    )
    named = {name: name for name in shared_names(kind.params_model, p)}
    return Part(
        "ce", CE, intent, reference=technology, mirrored=True, to_ipv4=to_ipv4, params=named
    )


def _pe(
    p: Ipv4aasParams,
    links: Links,
    name: str,
    kind: type[Technology],
    params: Any,
    to_ipv4: Direction | None = None,
) -> Part:
    """A stateless PE."""
    _, near = _middle(p)
    technology = kind(params, Links(near, links.right))
    servers = networks(p.responder_ipv4, p.responder_count)
    right = LinkIntent.describe(
        links.right,
        [p.dut_right_ipv4],
        [p.tester_right_ipv4],
        dict.fromkeys(servers, p.tester_right_ipv4),
    )
    intent = replace(technology.dut_intent(), right=right)
    named = {name: name for name in shared_names(kind.params_model, p)}
    return Part(name, PE, intent, reference=technology, to_ipv4=to_ipv4, params=named)


def _relay(p: Ipv4aasParams) -> dict[str, Any]:
    """What a MAP relay has beside the parameters of the rule: all CEs of it."""
    return {
        "ces": ALL_CES,
        "psid": 0 if p.ea_len else p.psid,
        "server_ipv4": p.responder_ipv4,
        "tester_left_ipv6": p.ce_middle_ipv6.ip,
    }


def _map_ce(p: Ipv4aasParams) -> dict[str, Any]:
    """What a MAP CE has beside the parameters of the rule."""
    own = {"ce_ipv4": p.public_first, "ce_psid": p.psid, "server_ipv4": p.responder_ipv4}
    return {**own, **_ce_link(p)}


def _ce_link(p: Ipv4aasParams) -> dict[str, Any]:
    return {
        "dut_left_ipv6": p.ce_middle_ipv6,
        "tester_left_ipv6": p.pe_middle_ipv6.ip,
        "dut_right_ipv4": _INNER_RIGHT,
        "tester_right_ipv4": _INNER_LEFT.partition("/")[0],
    }


def _map_e(p: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    napt, inner = _napt(p, links)
    ce = part_params(MapECeParams, p, **_map_ce(p), br_address=p.tunnel_ipv6)
    br = part_params(
        MapEParams, p, **_relay(p), br_address=p.tunnel_ipv6, dut_left_ipv6=p.pe_middle_ipv6
    )
    return napt, _ce(p, inner, MapECe, ce), _pe(p, links, "br", MapEBorderRelay, br)


def _map_t(p: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    napt, inner = _napt(p, links)
    ce = part_params(MapTCeParams, p, **_map_ce(p))
    br = part_params(MapTParams, p, **_relay(p), dut_left_ipv6=p.pe_middle_ipv6)
    return (
        napt,
        _ce(p, inner, MapTCe, ce, to_ipv4="reverse", behind=_servers(p, ce)),
        _pe(p, links, "br", MapTBorderRelay, br, to_ipv4="forward"),
    )


def _servers(p: Ipv4aasParams, ce: MapTCeParams) -> dict[Network, Address]:
    """The servers behind the DMR, rather than all of it: a translator may take that for itself."""
    servers = networks(p.responder_ipv4, p.responder_count)
    return {embed_network(ce.dmr_prefix, net): p.pe_middle_ipv6.ip for net in servers}


def _lw4o6(p: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    napt, inner = _napt(p, links)
    both = {
        "psid_len": p.softwire_psid_len,
        "br_address": p.tunnel_ipv6,
        "server_ipv4": p.responder_ipv4,
    }
    aftr = part_params(
        LwAftrParams,
        p,
        **both,
        softwires=1 << p.softwire_psid_len,
        simulated=ALL,
        ipv4_pool=f"{p.public_first}/32",
        dut_left_ipv6=p.pe_middle_ipv6,
        tester_left_ipv6=p.ce_middle_ipv6.ip,
    )
    _, _, address, _ = aftr.table().softwire(p.psid)
    b4 = part_params(
        LwB4Params, p, **both, **_ce_link(p), b4_address=address, ipv4_address=p.public_first
    )
    return napt, _ce(p, inner, LwB4, b4), _pe(p, links, "lwaftr", LightweightAftr, aftr)


def _ds_lite(p: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    near, far = _middle(p)
    here, there = between(*_INNER, links.right.mtu)
    b4, aftr = p.ce_middle_ipv6.ip, p.tunnel_ipv6
    tunnel = AftrTunnelConfig(
        aftr=aftr,
        first_b4=b4,
        b4_count=1,
        customer=p.initiator_ipv4,
        internal=p.initiator_ipv4,
    )
    b4_tunnel = B4Config(aftr=aftr, b4=b4, ipv6_side="right")
    left = _customers(p, links, networks(p.initiator_ipv4, p.initiator_count))
    cable = _cable(p)
    ce = Part(
        "b4",
        CE,
        DeviceIntent("b4", b4_tunnel, Links(links.left, near), left, cable[0]),
        reference=B4(b4, aftr, Links(near, links.left)),
        mirrored=True,
    )
    own = Links(far, here)
    nat_ipv4 = _INNER_RIGHT.partition("/")[0]
    servers = networks(p.responder_ipv4, p.responder_count)
    inner = LinkIntent.describe(here, [_INNER_LEFT], [nat_ipv4], dict.fromkeys(servers, nat_ipv4))
    softwire = Part(
        "softwire",
        PE,
        DeviceIntent("softwire", tunnel, own, cable[1], inner),
        reference=SoftwireEnd(aftr, b4, 1, p.initiator_ipv4, p.initiator_ipv4, own),
    )
    nat = _nat44(
        p,
        Links(there, links.right),
        dut_left_ipv4=_INNER_RIGHT,
        tester_left_ipv4=_INNER_LEFT.partition("/")[0],
    )
    return ce, softwire, Part("nat", PE, nat, "nftables", stateful=True)


def _customers(p: Ipv4aasParams, links: Links, inside: Sequence[IPv4Network]) -> LinkIntent:
    """The left link: the customer's networks behind the tester."""
    ways = dict.fromkeys(inside, p.tester_left_ipv4)
    return LinkIntent.describe(links.left, [p.dut_left_ipv4], [p.tester_left_ipv4], ways)


def _cable(p: Ipv4aasParams) -> tuple[LinkIntent, LinkIntent]:
    """The middle link as CE and PE have it, without routes."""
    ce, pe = p.ce_middle_ipv6, p.pe_middle_ipv6
    near, far = _middle(p)
    return LinkIntent.describe(near, [ce], [pe.ip]), LinkIntent.describe(far, [pe], [ce.ip])


def _464xlat(p: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    near, far = _middle(p)
    inside = covering(p.initiator_ipv4, p.initiator_count)
    clients = embed_network(p.clat_prefix, inside)
    servers = networks(p.responder_ipv4, p.responder_count)
    to_servers = {embed_network(p.plat_prefix, net): p.pe_middle_ipv6.ip for net in servers}
    clat = DeviceIntent(
        "clat",
        ClatConfig(
            eam=((inside, clients),),
            prefix=p.plat_prefix,
            ipv6_side="right",
            lowest_ipv6_mtu=LOWEST_IPV6_MTU,
        ),
        Links(links.left, near),
        _customers(p, links, [inside]),
        replace(_cable(p)[0], routes=to_servers),
    )
    plat = part_params(
        Nat64Params,
        p,
        **_connections(p),
        initiator_ipv6=clients[int(p.initiator_ipv4) - int(inside.network_address)],
        dut_left_ipv6=p.pe_middle_ipv6,
        tester_left_ipv6=p.ce_middle_ipv6.ip,
    )
    intent = Nat64(plat, Links(far, links.right)).dut_intent()
    return (
        Part(
            *("clat", CE, clat, "tayga", TAYGA),
            to_ipv4="reverse",
            params={"plat_prefix": "prefix"},
        ),
        Part(
            *("plat", PE, intent, "tayga-nftables", TAYGA),
            stateful=True,
            to_ipv4="forward",
            params={"prefix": "prefix"},
        ),
    )


_VARIANTS: Mapping[str, Callable[[Ipv4aasParams, Links], tuple[Part, ...]]] = {
    "464xlat": _464xlat,
    "ds-lite": _ds_lite,
    "lw4o6": _lw4o6,
    "map-e": _map_e,
    "map-t": _map_t,
}
