"""iptables (either backend): the kernel's stateful NAT44; ip6tables: its stateless NPTv6 (RFC 6296)."""

from collections.abc import Mapping, Sequence

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.addresses import find_spare_network
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import DeviceChange, Intent, Plan, Step, expect_lines
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.families import Nat44Config, NptConfig

RULE_COMMENT_OPTIONS = "-m comment --comment v6t"
LIST_RULES_COMMAND = "iptables -t nat -S POSTROUTING"


class Iptables(nat.NetfilterNat):
    """Driver for NAT44 by iptables; the comment ``v6t`` marks its SNAT rules."""

    name = "iptables"
    title = "Linux kernel NAT44 with iptables"
    supported_configurations = (Nat44Config,)
    test_status = "measured, flushed and restored with real frames (iptables 1.8.9)"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"iptables": "iptables", "conntrack": "conntrack"}
    version_command = "iptables --version"
    forward_drop_check = ("iptables -S FORWARD", "-P FORWARD DROP")

    def make_rule_steps(self, pools: Sequence[nat.NatPool], port: str) -> list[Step]:
        pairs = [(pool, net) for pool in pools for net in pool.client_networks]
        return [_make_rule_step(*pair, port, name) for name in nat.PROTOCOLS for pair in pairs]

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange:
        pool, port = self.get_pool(intent), self.get_ports(intent)["right"]
        chain, first, last = "iptables -w -t nat", pool.first_port, pool.last_port
        # the exact comment, because foreign comments may contain it
        comment = r"/\/\* v6t-beside \*\//"
        number = f"$({chain} -L POSTROUTING -n --line-numbers | awk '{comment} {{print $1}}')"
        match = f"-s {find_spare_network(intent, 4)} -o {port} -p udp"
        action = f"-m comment --comment v6t-beside -j SNAT --to-source {pool.address_range}"
        rules = [f"{match} {action}:{low}-{last}" for low in (first, first + 1)]
        return DeviceChange(
            "a NAT rule",
            add_command=f"{chain} -A POSTROUTING {rules[0]}",
            change_command=f"{chain} -R POSTROUTING {number} {rules[1]}",
            remove_command=f"for n in {number}; do {chain} -D POSTROUTING $n; done",
            show_command=f"{LIST_RULES_COMMAND} | grep -e '--comment v6t-beside ' || true",
            added_words=rules[0],
            changed_words=rules[1],
        )


def _make_rule_step(pool: nat.NatPool, net: str, port: str, protocol: str) -> Step:
    action = f"{RULE_COMMENT_OPTIONS} -j SNAT --to-source {pool.get_target(protocol)}"
    rule = f"POSTROUTING -s {net} -o {port} -p {protocol} {action}"
    why = f"translate the {protocol.upper()} connections of {net}"
    read = f"{LIST_RULES_COMMAND} | grep -e '-s {net} .*-p {protocol} .*--comment v6t ' || true"
    return _make_append_step("iptables -w -t nat", rule, why, read)


def _make_append_step(command: str, rule: str, why: str, read: str) -> Step:
    """Return the step that appends a rule to a table; the rule begins with the name of its chain."""
    create, delete = (f"{command} {option} {rule}" for option in ("-A", "-D"))
    return make_object_step(create, delete, why, read=read, expected=expect_lines(f"-A {rule}"))


class Ip6tablesNpt(LinuxDriver):
    """Driver for NPTv6 with one ip6tables rule for each direction."""

    name = "ip6tables-npt"
    title = "Linux kernel NPTv6 with ip6tables (SNPT, DNPT)"
    supported_configurations = (NptConfig,)
    test_status = "configured, verified, measured and restored with real frames (ip6tables 1.8.9)"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"ip6tables": "iptables"}
    has_filters = True
    version_command = "ip6tables --version"
    notes = ("packets with a source outside the inside prefix are forwarded unchanged",)

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        npt = intent.get_configuration(NptConfig)
        inside, outside = str(npt.internal), str(npt.external)
        port = self.get_ports(intent)["right"]
        rules = [
            _make_prefix_step("POSTROUTING", f"-s {inside} -o {port}", "SNPT", inside, outside),
            _make_prefix_step("PREROUTING", f"-d {outside} -i {port}", "DNPT", outside, inside),
        ]
        return self.assemble_plan(intent, facts, rules)

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        return self.make_route_change(intent)


def _make_prefix_step(chain: str, match: str, target: str, old: str, new: str) -> Step:
    rule = f"{chain} {match} {RULE_COMMENT_OPTIONS} -j {target} --src-pfx {old} --dst-pfx {new}"
    read = f"ip6tables -t mangle -S {chain} | grep -e '--comment v6t .*{target}' || true"
    return _make_append_step("ip6tables -w -t mangle", rule, f"translate {old} to {new}", read)
