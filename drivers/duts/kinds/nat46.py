"""OpenWrt's kernel module nat46, a stateless translator with its own network device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from pydantic import Field
from v6t.base.errors import DutError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds import addresses, softwires
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import Expectation, Intent, Plan, Step, expect_lines, expect_output
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.families import ClatConfig, MapTCeConfig, SiitConfig

DEVICE_NAME = "v6t-nat46"  # nat46's network device
UNSENT_FIGURE = "not sent"  # telemetry figure of packets that did not leave nat46's device
CONTROL_FILE = "/proc/net/nat46/control"
MODULE_SECTION = "module"  # survey section with the path of the kernel module, or ``none``
SOURCE_URL = "https://github.com/ayourtch/nat46"
_MAX_RULE_CHARACTERS = 199  # longer rules are shown truncated (``NAT46_CFG_BUFLEN``)
# all of IPv4, in two routes that leave an existing default route in place
_IPV4_HALVES = (IPv4Network("0.0.0.0/1"), IPv4Network("128.0.0.0/1"))


class Nat46Options(LinuxOptions):
    """Options of nat46."""

    module: str = Field(default="nat46", pattern=r"^[A-Za-z0-9_./+-]+$")
    """The kernel module: its name or the path of its file."""


@dataclass(frozen=True)
class RuleSide:
    """One side of a nat46 rule: an IPv4 and an IPv6 prefix, and the mapping between them."""

    ipv4_prefix: IPv4Network
    ipv6_prefix: IPv6Network
    style: str = "MAP"  # nat46's keyword for the algorithm of the mapping
    ea_len: int = 0  # number of EA bits
    psid_offset: int = 0

    @classmethod
    def from_prefix(cls, prefix: IPv6Network) -> RuleSide:
        """Return a side that maps all of IPv4 into an IPv6 prefix (RFC 6052, section 2.2)."""
        return cls(IPv4Network("0.0.0.0/0"), prefix, "RFC6052")

    def format_rule_part(self, role: str) -> str:
        """Return the part of a rule that describes this side; its role is ``local`` or ``remote``."""
        return (
            f"{role}.v4 {self.ipv4_prefix} {role}.v6 {self.ipv6_prefix} {role}.style {self.style} "
            f"{role}.ea-len {self.ea_len} {role}.psid-offset {self.psid_offset}"
        )


class Nat46Driver(LinuxDriver):
    """Driver for the kernel module nat46, which translates packets routed into its device."""

    name = "nat46"
    title = "nat46, OpenWrt's kernel module for SIIT, CLAT and MAP-T CE"
    supported_configurations = (SiitConfig, MapTCeConfig)
    test_status = "measured and restored with real frames (June 2026, in a virtual machine)"
    versions = ("2026-06",)
    options_model = Nat46Options
    notes = (
        "IPv4 packets without DF are not fragmented to the lowest IPv6 MTU",
        "packets that it cannot translate are dropped without an ICMP error",
    )
    header_profile = HeaderProfile(
        further_hops=1,
        df="set",
        zero_checksum="always",
        why="the kernel decrements the TTL twice; nat46 sets DF, and may write a UDP checksum of 0",
    )

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        name = self.options.module
        # without a file, sha256sum would read standard input
        file = name if "/" in name else f"$(modinfo -n {name} 2>/dev/null || echo none)"
        self.version_command = f"sha256sum {file} 2>/dev/null | cut -c-12"

    def get_survey_commands(self) -> Mapping[str, str]:
        named = self.options.module
        file = f"ls {named} 2>/dev/null" if "/" in named else f"modinfo -n {named} 2>/dev/null"
        known = f"ls -d /sys/module/nat46 2>/dev/null || {file} || echo none"
        return {**super().get_survey_commands(), MODULE_SECTION: known}

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        edge = intent.configuration
        if isinstance(edge, MapTCeConfig) and self.chain_membership is None:
            softwires.check_no_psid([edge.rule], "nat46 without a NAPT before it")
        if facts.sections.get(MODULE_SECTION, "").strip() == "none":
            problem = f"the device lacks the kernel module {self.options.module}"
            hint = f"build it from {SOURCE_URL}, and name the file with --set-dut module=FILE"
            raise DutError(problem, hint, code="missing-kernel-module")

    def extract_version(self, output: str) -> str:
        """Return the checksum of the module's file, since the module has no version."""
        return f"module {output.strip()} (SHA-256)" if output.strip() else "unknown"

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        words = "packets received but not sent, because they could not be translated"
        counted = telemetry.make_link_reading(DEVICE_NAME, f"`{UNSENT_FIGURE}`: {words}")
        losses = {UNSENT_FIGURE: LossReason.RULE, **counted.loss_reasons}
        device = replace(counted, parse=parse_counters, loss_reasons=losses)
        return {**super().get_telemetry_readings(intent), f"device {DEVICE_NAME}": device}

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        addresses.check_lowest_mtu(intent, "nat46")
        local, remote = _find_rule_sides(intent)
        if not local or not remote:
            problem = "nat46 needs mappings of hosts on both sides"
            instead = addresses.suggest_prefix(intent)
            raise make_unsupported_error(problem, "give eam or prefix", params=instead)
        named = self.options.module
        # unlike modprobe, insmod fails if the module is loaded
        load, unload = f"[ -d /sys/module/nat46 ] || insmod {named}", "rmmod nat46"
        if "/" not in named:
            load, unload = f"modprobe {named}", f"modprobe -r {named}"
        unless_used = f"grep -q ^add {CONTROL_FILE} || {unload}"
        mtu = max(intent.links.left.mtu, intent.links.right.mtu)
        edge = intent.configuration
        four, six = (
            (_IPV4_HALVES, [edge.end_user_prefix])
            if isinstance(edge, MapTCeConfig)
            else addresses.find_translated_networks(intent)
        )
        routes = {str(net): f"dev {DEVICE_NAME}" for net in (*four, *six)}
        values = {
            f"net.ipv6.conf.{DEVICE_NAME}.disable_ipv6": 0,
            f"net.ipv4.conf.{DEVICE_NAME}.rp_filter": 0,
        }
        add, delete = (f"echo {verb} {DEVICE_NAME} >{CONTROL_FILE}" for verb in ("add", "del"))
        show = f"ip -o link show dev {DEVICE_NAME}; grep -x 'add {DEVICE_NAME}' {CONTROL_FILE}"
        read, listed = f"{{ {show}; }} 2>/dev/null; true", expect_lines(f"add {DEVICE_NAME}")
        up = linux.expect_link(DEVICE_NAME, "UP", mtu=mtu)
        why, in_lab = "nat46's kernel module", self.options.in_lab
        steps = [
            linux.make_module_step("nat46", why, unless_used, in_lab=in_lab, load=load),
            make_object_step(add, delete, "nat46's device", read=read, expected=listed),
            *_make_rule_steps(local, remote),
            linux.make_link_settings_step(DEVICE_NAME, f"mtu {mtu}", "its default is 16384", up),
            linux.make_sysctl_step(values, "both IP versions through the device, with any source"),
            linux.make_routes_step(routes, "into the translator"),
        ]
        return self.assemble_plan(intent, facts, steps)


def parse_counters(text: str) -> Mapping[str, float]:
    """Parse the device's counters and add the number of packets that did not leave it."""
    counters = dict(telemetry.parse_link(text))
    if {"rx.packets", "tx.packets"} <= counters.keys():
        counters[UNSENT_FIGURE] = max(0.0, counters["rx.packets"] - counters["tx.packets"])
    return counters


def _make_rule_steps(local: Sequence[RuleSide], remote: Sequence[RuleSide]) -> list[Step]:
    first, *others = [
        f"{own.format_rule_part('local')} {other.format_rule_part('remote')}"
        for own in reversed(local)
        for other in reversed(remote)
    ]
    # a new device has one rule, which is set; further ones are inserted before it
    return [
        Step(
            f"echo {verb} {DEVICE_NAME} {rule} >{CONTROL_FILE}",
            "addresses of the IPv4 side (local) and of the IPv6 side (remote)",
            read=f"cat {CONTROL_FILE}",
            expected=_expect_rule(rule),
            has_mapping_prefixes=True,
        )
        for verb, rule in (("config", first), *(("insert", rule) for rule in others))
    ]


def _expect_rule(rule: str) -> Expectation:
    """Expect a rule in the control file, which truncates long rules and appends ``debug``."""
    shown_rule = f"{rule} "[:_MAX_RULE_CHARACTERS]

    def has_rule(output: str) -> bool:
        rows = (line.split(" ", 2) for line in output.splitlines())
        own = (row[-1] for row in rows if row[1:2] == [DEVICE_NAME])
        return any(f"{row} ".startswith(shown_rule) for row in own)

    description = f"'{shown_rule.strip()}'"
    return expect_output(has_rule, description, f"{description} is not a rule of {DEVICE_NAME}")


def _find_rule_sides(intent: Intent) -> tuple[list[RuleSide], list[RuleSide]]:
    """Return the rule sides for hosts on the IPv4 side (local) and on the IPv6 side (remote)."""
    edge = intent.configuration
    if isinstance(edge, MapTCeConfig):
        rule, dmr = edge.rule, edge.dmr
        # nat46 derives PSIDs from EA bits only; one CE is a mapping of one host
        if rule.psid is not None:
            host = RuleSide(*addresses.get_siit_config(intent).eam[0])
            return [host], [RuleSide.from_prefix(dmr)]
        if edge.ipv4.num_addresses > 1:
            problem = f"nat46 drops packets of a CE with an IPv4 prefix such as {edge.ipv4}"
            instead = {"ea_len": 32 - rule.ipv4_prefix.prefixlen}
            hint = "let the EA bits hold a whole address"
            raise make_unsupported_error(problem, hint, params=instead)
        style = "MAP0" if rule.iid_format == "draft" else "MAP"
        own = RuleSide(rule.ipv4_prefix, rule.ipv6_prefix, style, rule.ea_len, rule.psid_offset)
        return [own], [RuleSide.from_prefix(dmr)]
    near = addresses.find_host_networks(intent, 6)
    local, remote = [], []
    for four, six in addresses.list_equal_size_mappings(intent, "nat46"):
        there = remote if any(net.overlaps(six) for net in near) else local
        there.append(RuleSide(four, six, ea_len=32 - four.prefixlen))
    if (prefix := addresses.get_siit_config(intent).prefix) is not None:
        if any(net.subnet_of(prefix) for net in near):
            remote.append(RuleSide.from_prefix(prefix))
        if not isinstance(edge, ClatConfig):
            local.append(RuleSide.from_prefix(prefix))
    return local, remote
