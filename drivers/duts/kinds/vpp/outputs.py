"""VPP's versions, and the parsers of its ``show`` commands."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from ipaddress import IPv6Address, ip_network
from typing import NamedTuple

from v6t.drivers.duts.plan import Expectation, expect_lines
from v6t.drivers.duts.readings import LossReason, make_sum_parser

OLDEST_VERSION = (22, 6)  # oldest version that the driver supports
VERSIONS = ("22.06", "24.02", "24.06", "25.02", "26.06")  # one for each set of commands


class VppMapDomain(NamedTuple):
    """A MAP domain, which has all values of ``show map domain`` but its index and MTU."""

    tag: str
    ipv4: str  # prefix or shared address
    ipv6: str  # prefix of the CEs
    source: str  # IPv6 source of packets to CEs
    ea_len: int
    psid_offset: int
    psid_len: int

    @property
    def command_words(self) -> str:
        """The arguments of ``map add domain`` that create this domain."""
        return (
            f"tag {self.tag} ip4-pfx {self.ipv4} ip6-pfx {self.ipv6} ip6-src {self.source} "
            f"ea-bits-len {self.ea_len} psid-offset {self.psid_offset} psid-len {self.psid_len}"
        )


def expect_domains(domains: Iterable[VppMapDomain], description: str) -> Expectation:
    """Expect these domains, and possibly others, in ``show map domain``."""
    listed = (d._replace(tag=f"{{{d.tag}}}", source=str(ip_network(d.source))) for d in domains)
    find_problem = expect_lines(*(domain.command_words for domain in listed)).find_problem
    strip = partial(re.compile(r"^\[\d+\] | mtu .*$", re.MULTILINE).sub, "")
    return Expectation(description, lambda output: find_problem(strip(output)))


_DOMAIN_LINE = re.compile(r"\[\d+\] tag \{([^}]*)\} ip4-pfx ")
_RULE_LINE = re.compile(r"^ rule psid: (\d+) ip6-dst (\S+)")


def parse_domain_rules(text: str) -> dict[tuple[str, int], IPv6Address]:
    """Return IPv6 addresses from ``show map domain``, keyed by the tag of a domain and the PSID."""
    rules: dict[tuple[str, int], IPv6Address] = {}
    tag = ""
    for line in text.splitlines():
        if domain := _DOMAIN_LINE.search(line):
            tag = domain[1]
        elif rule := _RULE_LINE.match(line):
            rules[tag, int(rule[1])] = IPv6Address(rule[2])
    return rules


_NODE_LINE = re.compile(
    # no space follows names of 30 characters; states have at most 12
    r"^(\S+?)\s*(active|polling|any wait|interrupt wa|event wait|done|disabled|time wait)\s+"
    r"(\d+)\s+(\d+)\s+(\d+)\s+([\d.e+-]+)\s+([\d.]+)",
    re.MULTILINE,
)
_RATES = (rf"{name} (?P<{name}>[\d.e+-]+)" for name in ("in", "out", "drop", "punt"))
_RATES_LINE = "vector rates " + ", ".join(_RATES)


def parse_runtime(text: str) -> Mapping[str, float]:
    """Return the counters and rates of ``show runtime``, such as ``thread0.node.ip4-input.calls``.

    ``vectors_per_call`` is the average since VPP started, of the thread with the highest value. The clocks
    of polling nodes are omitted, because they include empty polls.
    """
    figures: dict[str, float] = {}
    for number, part in enumerate(re.split(r"^(?=Time )", text, flags=re.MULTILINE)[1:]):
        for match in _NODE_LINE.finditer(part):
            name, state, calls, vectors, _suspends, clocks, per_call = match.groups()
            if int(vectors):
                counted, average = f"thread{number}.node.{name}", f"node.{name}.vectors_per_call"
                figures[f"{counted}.calls"] = float(calls)
                figures[f"{counted}.vectors"] = float(vectors)
                if state != "polling":
                    figures[f"{counted}.clocks"] = float(clocks) * float(vectors)
                figures[average] = max(figures.get(average, 0.0), float(per_call))
        rates = re.search(_RATES_LINE, part)
        for name, value in (rates.groupdict() if rates else {}).items():
            figures[f"thread{number}.vector_rate_{name}"] = float(value)
    return figures


def parse_hardware_addresses(text: str) -> Mapping[str, str]:
    """Return the MAC address of each interface from ``show hardware-interfaces``."""
    # the lines below an interface's name are indented
    pattern = r"^(\S+).*\n(?:[ \t].*\n)*?\s+Ethernet address ([0-9a-f:]{17})"
    return dict(re.findall(pattern, text, re.MULTILINE))


def has_path(text: str, net: str, path: str) -> bool:
    """Return whether ``show ip fib`` lists a network's entry with this path in the default table."""
    within = False
    for words in (line.split() for line in text.splitlines()):
        if len(words) > 1 and words[1].startswith("fib:"):
            within = words[:2] == [net, "fib:0"]
        if within and words in (path.split(), [*path.split(), "(p2p)"]):
            return True
    return False


def parse_pool_addresses(text: str) -> list[str]:
    """Return the addresses without a tenant VRF from ``show nat44 addresses`` or ``show nat64 pool``."""
    pool = text.partition("twice-nat")[0]
    return re.findall(r"^\s*([\d.]+)\s*$(?!\s*tenant VRF:)", pool, re.MULTILINE)


INTERFACE_COUNTERS = (
    "rx packets", "tx packets", "drops", "rx-miss", "rx-error", "tx-error", "punt",
)  # fmt: skip
INTERFACE_LOSS_REASONS = {
    r".*\.drops": LossReason.TOTAL,
    r".*\.rx-miss": LossReason.INGRESS,
    r".*\.[rt]x-error": LossReason.QUEUE,
    r".*\.punt": LossReason.RULE,
}


def parse_interface_counters(text: str, ports: Collection[str] = ()) -> Mapping[str, float]:
    """Return the counters of ``show interface``, such as ``host-left.drops``, and the sum ``rx.packets``."""
    counters: dict[str, float] = {}
    name, counted = "", re.compile(rf"(?<![\w-])({'|'.join(INTERFACE_COUNTERS)})\s+(\d+)\s*$")
    for line in text.splitlines()[1:]:
        if line and not line[0].isspace():
            name = line.split()[0]
        if (match := counted.search(line)) and name:
            counters[f"{name}.{match[1].replace(' ', '_')}"] = float(match[2])
    if name and ports:
        counters["rx.packets"] = sum(counters.get(f"{port}.rx_packets", 0.0) for port in ports)
    return counters


# loss reasons by a part of the text in ``show errors``; other errors are harmless
ERROR_TEXT_REASONS = {
    **dict.fromkeys(("out of ports", "maximum sessions"), LossReason.TABLE_FULL),
    "no translation": LossReason.NO_CONNECTION,
    **dict.fromkeys(
        ("security check failed", "bad protocol", "no domain", "no binding", "no matching",
         "unreachable response"), LossReason.RULE),
    **dict.fromkeys(
        ("ring overrun", "no free tx slots", "tx failure", "congestion drop"), LossReason.QUEUE),
    "drop": LossReason.RULE,
}  # fmt: skip
ERROR_LOSS_REASONS = {f".*: .*{text}.*": reason for text, reason in ERROR_TEXT_REASONS.items()}


def parse_errors(text: str) -> Mapping[str, float]:
    """Return losses from ``show errors``, keyed ``NODE: REASON``; ``reasons`` counts its rows."""
    errors: dict[str, float] = {}
    if "Reason" in text:
        errors["reasons"] = float(len(text.strip().splitlines()) - 1)
    last = -1 if "Severity" in text else None
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or not words[0].isdigit():
            continue
        reason = " ".join(words[2:last]).lower()
        if any(part in reason for part in ERROR_TEXT_REASONS):
            name = f"{words[1]}: {reason}"
            errors[name] = errors.get(name, 0.0) + float(words[0])
    return errors


# parses ``show nat44 summary``: ``total sessions: 7 (timed out: 0)``, of all protocols
parse_nat44_sessions = make_sum_parser(r"^total sessions: (\d+)", "sessions")


def parse_bindings(text: str) -> Mapping[str, float]:
    """Return the number of rows in ``show nat64 bib all``, as ``sessions``."""
    head, *rows = [line for line in text.splitlines() if line.strip()] or [""]
    return {"sessions": len(rows)} if "BIB" in head.split() else {}


# parses ``show nat44 ei sessions``: ``-------- thread 0 vpp_main: 20 sessions --------``
parse_nat44_ei_sessions = make_sum_parser(r"^-+ thread \d+ \S+: (\d+) sessions -+", "sessions")
