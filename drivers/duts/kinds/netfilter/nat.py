"""Pools and the base driver of stateful NAT in the Linux kernel."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import pairwise
from typing import ClassVar

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.netfilter import conntrack
from v6t.drivers.duts.plan import Intent, Plan, Step, find_line
from v6t.intent.families import Nat66Config, NatConfig

PROTOCOLS_WITH_PORTS = ("udp", "tcp")
PROTOCOLS = (*PROTOCOLS_WITH_PORTS, "icmp")


@dataclass(frozen=True)
class NatPool:
    """Client networks, and the public addresses and ports to which they are translated."""

    client_networks: tuple[str, ...]
    addresses: tuple[str, ...]
    first_port: int
    last_port: int

    @property
    def address_range(self) -> str:
        """The public addresses in the notation of nft and iptables."""
        return format_address_range(self.addresses[0], self.addresses[-1])

    def get_target(self, protocol: str) -> str:
        """Return the public addresses, with the ports if the protocol has any."""
        if protocol not in PROTOCOLS_WITH_PORTS:
            return self.address_range
        last = f"-{self.last_port}" if self.last_port > self.first_port else ""
        return f"{self.address_range}:{self.first_port}{last}"


def format_address_range(first: str, last: str) -> str:
    """Return a range of addresses, or a single address, in the notation of nft."""
    ends = [f"[{a}]" if ":" in a else a for a in (first, last)]
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def get_pool(intent: Intent, *, supported_settings: Sequence[str] = ()) -> NatPool:
    """Return the NAT pool of an intent; raise UsageError if a setting is not supported."""
    settings = intent.get_configuration(NatConfig)
    for name in ("port_block", "udp_timeout_s", "session_limit"):
        if getattr(settings, name) and name not in supported_settings:
            problem = f"this device cannot configure {name}"
            hint = f"leave {name} at 0, or use another driver"
            raise make_unsupported_error(problem, hint, params={name: 0})
    version = 6 if isinstance(settings, Nat66Config) else 4
    addresses = getattr(settings, f"pool{version}", ())
    inside = getattr(settings, f"inside{version}", ())
    if not addresses or any(int(b) - int(a) != 1 for a, b in pairwise(addresses)):
        problem = f"{intent.technology} needs consecutive public IPv{version} addresses"
        raise UsageError(problem, "list them in order, without gaps", code="invalid-intent")
    return NatPool(tuple(map(str, inside)), tuple(map(str, addresses)), *settings.ports)


def divide_pool(pool: NatPool, intent: Intent) -> list[NatPool]:
    """Return a pool with a block of ports for each client, or the undivided pool without blocks."""
    if not (size := intent.get_configuration(NatConfig).port_block):
        return [pool]
    clients = [host for net in pool.client_networks for host in ip_network(net)]
    blocks = (pool.last_port - pool.first_port + 1) // size
    if len(clients) > blocks * len(pool.addresses):
        problem = f"the pool does not contain {len(clients)} blocks of {size} public ports"
        raise UsageError(problem, code="invalid-intent")
    pools = []
    for number, client in enumerate(clients):
        address, low = pool.addresses[number // blocks], pool.first_port + number % blocks * size
        pools.append(NatPool((str(client),), (address,), low, low + size - 1))
    return pools


class NetfilterNat(conntrack.ConntrackDriver):
    """Base class of drivers for NAT by netfilter rules."""

    has_filters = True
    notes = ("source ports within the range are kept where they are free",)
    version_pattern = r"\bv(\d\S*)"
    # names of the supported settings beyond addresses and ports
    supported_settings: ClassVar[tuple[str, ...]] = ("port_block", "udp_timeout_s")
    # command that lists the chain FORWARD, and the line that shows that it drops packets
    forward_drop_check: ClassVar[tuple[str, str] | None] = None

    def get_pool(self, intent: Intent) -> NatPool:
        """Return the pool of an intent; raise UsageError if a setting is not supported."""
        return get_pool(intent, supported_settings=self.supported_settings)

    @abstractmethod
    def make_rule_steps(self, pools: Sequence[NatPool], port: str) -> list[Step]:
        """Return the steps that translate the clients of each pool as their packets leave an interface."""

    def get_survey_commands(self) -> Mapping[str, str]:
        more = {} if self.forward_drop_check is None else {"forward": self.forward_drop_check[0]}
        return {**super().get_survey_commands(), **more}

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        check = self.forward_drop_check
        if check and find_line(facts.sections.get("forward", ""), check[1]) is not None:
            problem = "the device's chain FORWARD drops packets that no rule accepts"
            hint = "that is another program's firewall (Docker, ufw): use a device without it"
            raise DutError(problem, hint, code="firewall-blocks")

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        pool = self.get_pool(intent)
        rules = self.make_rule_steps(divide_pool(pool, intent), self.get_ports(intent)["right"])
        steps = self.make_tracking_steps(intent, facts, rules)
        flush = conntrack.make_flush_steps(pool.client_networks)
        return self.assemble_plan(intent, facts, steps, flush)
