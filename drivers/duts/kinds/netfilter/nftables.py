"""nftables: the kernel's stateful NAT44 and NAT66."""

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import ClassVar

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import DeviceChange, Expectation, Intent, Step
from v6t.drivers.duts.steps import make_config_file_step, make_object_step
from v6t.intent.families import DeviceConfig, Nat44Config, Nat66Config

LIVE_RULE_COMMENT = "v6t-beside"  # marks the rule that is added and removed under load
_PROTOCOL_NAMES = {"1": "icmp", "6": "tcp", "17": "udp"}


class Nftables(nat.NetfilterNat):
    """Driver for NAT44 in a separate nftables table."""

    name = "nftables"
    title = "Linux kernel NAT44 with nftables"
    supported_configurations: ClassVar[tuple[type[DeviceConfig], ...]] = (Nat44Config,)
    test_status = "measured, flushed and restored with real frames (nft 1.0.6)"
    versions = ("1.0.6",)
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    version_command = "nft --version"
    forward_drop_check = ("nft list chain ip filter FORWARD", "policy drop")

    def make_rule_steps(self, pools: Sequence[nat.NatPool], port: str) -> list[Step]:
        return make_snat_steps(self.options.state_dir, pools, port)

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange:
        pool, port = self.get_pool(intent), self.get_ports(intent)["right"]
        first, last = pool.first_port, pool.last_port
        net = str(find_spare_network(intent, ip_address(pool.addresses[0]).version))
        chain = f"{_get_family(net)} v6t post"
        chain_listing = f"nft -a list chain {chain}"
        handles = f"sed -n '/comment \"{LIVE_RULE_COMMENT}\"/s/.*handle //p'"
        targets = [f"{pool.address_range}:{low}-{last}" for low in (first, first + 1)]
        comment = f"comment '\"{LIVE_RULE_COMMENT}\"'"
        rules = [f"{_format_rule(net, port, 'udp', target)} {comment}" for target in targets]
        return DeviceChange(
            "a NAT rule",
            add_command=f"nft add rule {chain} {rules[0]}",
            change_command=f"nft replace rule {chain} handle $({chain_listing} | {handles}) {rules[1]}",
            remove_command=f"for h in $({chain_listing} 2>/dev/null | {handles}); do "
            f"nft delete rule {chain} handle $h; done",
            show_command=f"{chain_listing} 2>/dev/null | grep -F 'comment \"{LIVE_RULE_COMMENT}\"' || true",
            added_words=f"snat to {targets[0]}",
            changed_words=f"snat to {targets[1]}",
        )


class Nftables66(Nftables):
    """Driver for NAT66, which translates IPv6 clients to public IPv6 addresses and ports."""

    name = "nftables66"
    title = "Linux kernel NAT66 with nftables"
    supported_configurations = (Nat66Config,)
    forward_drop_check = ("nft list chain ip6 filter FORWARD", "policy drop")
    supported_settings = ()


def make_snat_steps(directory: str, pools: Sequence[nat.NatPool], port: str) -> list[Step]:
    """Return the steps that translate the source addresses of packets leaving an interface."""
    family = _get_family(pools[0].addresses[0])
    rules = [
        _format_rule(net, port, protocol, pool.get_target(protocol))
        for pool in pools
        for protocol in (nat.PROTOCOLS if family == "ip" else ("udp",))
        for net in pool.client_networks
    ]
    hook = "type nat hook postrouting priority srcnat"
    why = "translate the clients' connections"
    return make_table_steps(f"{directory}/v6t.nft", f"{family} v6t", "post", hook, rules, why)


def _get_family(address: str) -> str:
    return "ip6" if ":" in address else "ip"


def _format_rule(net: str, port: str, protocol: str, target: str) -> str:
    match = "meta l4proto" if ":" in net else "ip protocol"
    return f'{_get_family(net)} saddr {net} oifname "{port}" {match} {protocol} counter snat to {target}'


def make_table_steps(
    file: str, table: str, chain: str, hook: str, rules: Sequence[str], why: str, options: str = ""
) -> list[Step]:
    """Return the steps that write and load a table with one chain; ``options`` are those of its listing."""
    lines = [f"add table {table}", f"delete table {table}"]
    lines += [f"table {table} {{", f"  chain {chain} {{"]
    lines += [f"    {hook}; policy accept;", *(f"    {rule}" for rule in rules), "  }", "}"]
    load, delete = f"nft -c -f {file} && nft -f {file}", f"nft delete table {table}"
    read = f"nft {options}list table {table} 2>/dev/null || true"
    expected = expect_rules(hook.partition(" priority ")[0].removeprefix("type "), rules)
    return [
        make_config_file_step(file, "\n".join(lines) + "\n", "the rules"),
        make_object_step(load, delete, why, read=read, expected=expected),
    ]


def expect_rules(hook: str, rules: Iterable[str]) -> Expectation:
    """Expect exactly these rules in the chain at a hook, ignoring the rule of a live change."""
    expected_rules = [re.sub(r"(?<=addr )(\S+)(/32|/128)(?= )", r"\1", rule) for rule in rules]

    def find_rule_problem(output: str) -> str | None:
        lines = [_normalize_rule(line) for line in output.splitlines()]
        head, *listed = [line for line in lines if line and not line.endswith(("{", "}"))] or [""]
        if not head.startswith(f"type {hook} priority ") or not head.endswith("; policy accept;"):
            return f"the chain of {hook} is missing"
        listed = [rule for rule in listed if not rule.endswith(f'comment "{LIVE_RULE_COMMENT}"')]
        if listed == expected_rules:
            return None
        wrong = next((rule for rule in expected_rules if rule not in listed), None)
        return f"'{wrong}' is missing" if wrong else "it also has other rules"

    return Expectation(" and ".join(f"'{rule}'" for rule in expected_rules), find_rule_problem)


def _normalize_rule(line: str) -> str:
    """Return a listed rule without counter values, with protocols and address ranges as v6t writes them."""
    text = re.sub(r"counter packets \d+ bytes \d+", "counter", " ".join(line.split()))
    if prefix := re.search(r"(?<=snat to )\[?([\da-f.:]+)\]?/(\d+)", text):
        network = ip_network(f"{prefix[1]}/{prefix[2]}")
        ends = (str(network[0]), str(network[-1]))
        text = text.replace(prefix[0], nat.format_address_range(*ends))
    pattern = r"\b(meta l4proto|ip protocol) (\d+)\b"
    return re.sub(pattern, lambda m: f"{m[1]} {_PROTOCOL_NAMES.get(m[2], m[2])}", text)
