"""The kernel's IPv4-in-IPv6 tunnel (RFC 2473): B4, lwB4, MAP-E CE, or the AFTR's end for one B4.

All IPv4 traffic of the customer goes to the relay (hub and spoke). Forwarding mapping rules, by which
MAP-E CEs reach each other directly, require patches of the kernel that OpenWrt carries.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Interface
from typing import Literal

from pydantic import Field
from v6t.base.errors import DutError
from v6t.drivers.duts import plan
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.linux import filters, telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter.nftables import make_table_steps
from v6t.drivers.duts.kinds.softwires import DeviceTunnelEnd, get_tunnel_end
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.families import AftrTunnelConfig, B4Config, CustomerConfig, LwB4Config
from v6t.packets.address_layouts import PSID, make_port_layout

KERNEL_MODULE = "ip6_tunnel"
TUNNEL_NAME = "v6t-tunnel"
ROUTING_TABLE_NUMBER = 8676  # also the priority of the rule that selects the table
TCP, UDP = 6, 17  # protocol numbers; small systems have no names for them


class Ip6TunnelOptions(LinuxOptions):
    """Options of the kernel module ip6_tunnel."""

    hop_limit: int = Field(default=64, ge=1, le=255)  #: Hop limit of the outer header.
    dscp: Literal["uniform", "pipe"] = "uniform"
    """``uniform`` copies the DSCP to the outer header and back, as DS-Lite and lw4o6 require (RFC 6333
    section 7.1); ``pipe`` writes 0 and keeps the inner one (RFC 2983)."""
    checks: bool = False
    """Drop packets of other addresses and ports than the customer's with nftables, in both directions; RFC
    7597 section 8.1 and RFC 7596 section 5.2 leave this to the NAPT, which is not measured here."""


class Ip6Tunnel(LinuxDriver):
    """Driver for the kernel's IPv4-in-IPv6 tunnel, into which packets from the customer are routed."""

    name = "ip6-tunnel"
    title = "Linux ip6_tunnel: either end of a DS-Lite tunnel, lwB4, MAP-E CE"
    supported_configurations = (LwB4Config, B4Config, AftrTunnelConfig)
    test_status = "measured and restored with real frames (kernel 6.1 in a virtual machine)"
    options_model = Ip6TunnelOptions
    optional_programs = (filters.FILTER_PROGRAM,)

    def get_survey_commands(self) -> Mapping[str, str]:
        find = f"modinfo -n {KERNEL_MODULE} 2>/dev/null || echo none"
        known = f"ls -d /sys/module/{KERNEL_MODULE} 2>/dev/null || {find}"
        return {**super().get_survey_commands(), KERNEL_MODULE: known}

    @classmethod
    def check_supported(cls, intent: plan.Intent, *, in_chain: bool = False) -> None:
        super().check_supported(intent, in_chain=in_chain)
        get_tunnel_end(intent)

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        if facts.sections.get(KERNEL_MODULE, "").strip() == "none":
            problem = f"the device's kernel {facts.version} has no {KERNEL_MODULE}"
            hint = "use a kernel with CONFIG_IPV6_TUNNEL, as in every distribution"
            raise DutError(problem, hint, code="missing-kernel-module")
        if self.options.checks:
            facts.require_program(filters.FILTER_PROGRAM, "nftables", ", which the checks use")
            if get_tunnel_end(intent).lwb4 is None:
                problem = "a B4 of DS-Lite has no address and no port set to check"
                raise make_unsupported_error(problem, "leave dut.options.checks out")

    def get_header_profile(self, intent: plan.Intent) -> HeaderProfile:
        uniform = self.options.dscp == "uniform"
        return HeaderProfile(
            outer_dscp="copied" if uniform else "zero",
            outer_ecn="reset",
            inner_dscp="copied" if uniform else "kept",
            tunnel_hop_limit=self.options.hop_limit,
            why="ip6_tunnel: hop limit and DSCP as configured, CE not copied (INET_ECN_encapsulate)",
        )

    def get_telemetry_readings(self, intent: plan.Intent) -> Mapping[str, Reading]:
        words = "its errors are packets that it could not send, and ECN marks that it lost"
        tunnel = telemetry.make_link_reading(TUNNEL_NAME, words)
        return {**super().get_telemetry_readings(intent), f"tunnel {TUNNEL_NAME}": tunnel}

    def plan_configuration(self, intent: plan.Intent, facts: Facts) -> plan.Plan:
        customer = get_tunnel_end(intent)
        notes = [
            "hub and spoke: there are no forwarding mapping rules, everything goes to the relay",
            "no encapsulation limit (RFC 2473 section 6.6); a flow label of each flow (RFC 6438)",
            "IPv6 packets to the tunnel's end that are not from the relay are answered with ICMPv6 1/4",
        ]
        steps = self._make_tunnel_steps(intent, customer)
        if self.options.checks and customer.lwb4 is not None:
            file = f"{self.options.state_dir}/v6t.nft"
            hook = "type filter hook forward priority filter"
            rules = format_drop_rules(customer.lwb4, self.get_ports(intent)[customer.ipv4_side])
            why = "drop packets that are not the customer's"
            steps += make_table_steps(file, "ip v6t", "own", hook, rules, why, options="-s -p ")
        elif customer.lwb4 is not None:
            notes.append("inner addresses and ports are not checked, see dut.options.checks")
        return self.assemble_plan(intent, facts, steps, notes=notes)

    def _make_tunnel_steps(self, intent: plan.Intent, customer: DeviceTunnelEnd) -> list[plan.Step]:
        ports = self.get_ports(intent)
        outside, inside = ports[customer.ipv6_side], ports[customer.ipv4_side]
        local = [linux.make_address_step(IPv6Interface(customer.local), outside)]
        # the module stays loaded if another tunnel exists at the rollback
        others = "ip -o link show type ip6tnl | grep -v ' ip6tnl0@'"
        why, in_lab = "accept packets from the tunnel with any source", self.options.in_lab
        fit = "encapsulated packets must fit the link"
        expected = linux.expect_link(TUNNEL_NAME, "LOWER_UP", mtu=customer.mtu)
        unload = f"{others} >/dev/null || modprobe -r {KERNEL_MODULE}"
        return [
            linux.make_module_step(KERNEL_MODULE, "the kernel's module", unload, in_lab=in_lab),
            # the kernel uses only its own addresses as ends of a tunnel
            *([] if customer.has_interface_address else local),
            self._make_create_step(customer),
            linux.make_link_settings_step(TUNNEL_NAME, f"mtu {customer.mtu}", fit, expected),
            linux.make_sysctl_step({f"net.ipv4.conf.{TUNNEL_NAME}.rp_filter": 0}, why),
            *_make_route_steps(inside),
        ]

    def _make_create_step(self, customer: DeviceTunnelEnd) -> plan.Step:
        ends = f"remote {customer.remote} local {customer.local}"
        how = f"encaplimit none hoplimit {self.options.hop_limit}"
        uniform = self.options.dscp == "uniform"
        dscp = ("tclass inherit", "dscp inherit") if uniform else ("tclass 0x00",)
        phrases = (f"{TUNNEL_NAME}: ip/ipv6 {ends}", how, *dscp)

        def has_tunnel(output: str) -> bool:
            line = plan.find_line(output, *phrases)
            return line is not None and ("dscp inherit" in line) == uniform

        add = f"ip -6 tunnel add {TUNNEL_NAME} mode ipip6 {ends} {how} {' '.join(dscp)}"
        delete, why = f"ip -6 tunnel del {TUNNEL_NAME}", "the tunnel to the relay"
        read = f"ip -6 tunnel show {TUNNEL_NAME} 2>/dev/null || true"
        expected = plan.expect_output(has_tunnel, " and ".join(f"'{p}'" for p in phrases))
        return make_object_step(add, delete, why, read=read, expected=expected)


def format_drop_rules(lwb4: CustomerConfig, customer_port: str) -> list[str]:
    """Return the nftables rules that drop packets without the customer's address and ports."""
    matches = (
        (f'iifname "{customer_port}" oifname "{TUNNEL_NAME}"', "s"),
        (f'iifname "{TUNNEL_NAME}"', "d"),
    )
    net = str(lwb4.ipv4) if lwb4.ipv4.prefixlen < 32 else str(lwb4.ipv4.network_address)
    rules = [f"{match} ip {end}addr != {net} counter drop" for match, end in matches]
    if not lwb4.psid_len:
        return rules
    layout = make_port_layout(lwb4.psid_offset, lwb4.psid_len)
    mask, psid = layout.make_mask(PSID), layout.encode(psid=lwb4.psid, index=0)
    masked = f" & {mask}" if mask < 0xFFFF else ""  # nft lists no mask of all bits
    for match, end in matches:
        port = f"{match} meta l4proto {{ {TCP}, {UDP} }} th {end}port"
        rules.append(f"{port}{masked} != {psid} counter drop")
        if lwb4.psid_offset:
            rules.append(f"{port} < {1 << 16 - lwb4.psid_offset} counter drop")
    return rules


def _make_route_steps(customer_port: str) -> Sequence[plan.Step]:
    rule = f"iif {customer_port} lookup {ROUTING_TABLE_NUMBER}"
    return [
        make_object_step(
            f"ip route add default dev {TUNNEL_NAME} table {ROUTING_TABLE_NUMBER} proto 86",
            f"ip route flush table {ROUTING_TABLE_NUMBER}",
            "all IPv4 is behind the relay",
            read=f"ip route show table {ROUTING_TABLE_NUMBER} 2>/dev/null || true",
            expected=plan.expect_words(f"default dev {TUNNEL_NAME} proto 86"),
        ),
        make_object_step(
            f"ip rule add priority {ROUTING_TABLE_NUMBER} {rule}",
            f"ip rule del priority {ROUTING_TABLE_NUMBER}",
            "for packets from the customer",
            read=f"ip rule show priority {ROUTING_TABLE_NUMBER}",
            expected=plan.expect_lines(f"{ROUTING_TABLE_NUMBER}: from all {rule}"),
        ),
    ]
