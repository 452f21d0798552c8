"""NAT66 by ip6tables: source NAT to the pool, or to the address of the interface."""

from collections.abc import Mapping, Sequence

from v6t.drivers.duts.kinds.netfilter.conntrack import ConntrackOptions
from v6t.drivers.duts.kinds.netfilter.nat import PROTOCOLS_WITH_PORTS, NatPool, NetfilterNat
from v6t.drivers.duts.plan import Step, expect_lines
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.families import Nat66Config

CHAIN = "ip6tables -w -t nat"


class SnatOptions(ConntrackOptions):
    """Options of this device."""

    masquerade: bool = False
    """Translate to the address of the interface in place of the pool."""


class Ip6tablesSnat(NetfilterNat):
    """One SNAT rule for each client network and protocol, identified by its comment."""

    name = "ip6tables-snat"
    title = "Linux kernel NAT66 with ip6tables"
    supported_configurations = (Nat66Config,)
    test_status = "not yet"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"ip6tables": "iptables", "conntrack": "conntrack"}
    version_command = "ip6tables --version"
    options_model = SnatOptions
    supported_settings = ("udp_timeout_s",)
    forward_drop_check = ("ip6tables -S FORWARD", "-P FORWARD DROP")

    def make_rule_steps(self, pools: Sequence[NatPool], port: str) -> list[Step]:
        return [
            self._rule(pool, net, protocol, port)
            for pool in pools
            for net in pool.client_networks
            for protocol in ("udp", "tcp", "ipv6-icmp")
        ]

    def _rule(self, pool: NatPool, net: str, protocol: str, port: str) -> Step:
        ports = protocol in PROTOCOLS_WITH_PORTS
        addresses = "-".join(dict.fromkeys((pool.addresses[0], pool.addresses[-1])))
        source = f"[{addresses}]:{pool.first_port}-{pool.last_port}" if ports else addresses
        target = f"SNAT --to-source {source}"
        if self.options.masquerade:
            target = "MASQUERADE" + (
                f" --to-ports {pool.first_port}-{pool.last_port}" if ports else ""
            )
        rule = f"POSTROUTING -s {net} -o {port} -p {protocol} -m comment --comment v6t -j {target}"
        return make_object_step(
            f"{CHAIN} -A {rule}",
            f"{CHAIN} -D {rule}",
            f"translate {protocol} of {net}",
            read=f"{CHAIN} -S POSTROUTING | grep -e '-s {net} .*-p {protocol} .*--comment v6t ' || true",
            expected=expect_lines(f"-A {rule}"),
        )
