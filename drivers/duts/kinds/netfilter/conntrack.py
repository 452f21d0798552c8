"""Connections that the Linux kernel tracks: their timers, table, log and counters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import model_validator
from v6t.base.errors import DutError, InvalidValue, UsageError
from v6t.drivers.device import MAX_OWN_CONNECTIONS
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import make_module_step, make_sysctl_step
from v6t.drivers.duts.plan import Check, Intent, Step, expect_output
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.drivers.duts.steps import make_daemon_step, make_process_stop_command
from v6t.intent.families import NatConfig

COUNT_FILE = "/proc/sys/net/netfilter/nf_conntrack_count"  # number of connections
TABLE_SIZE_FACTOR = 1.05  # ratio of table entries to required connections
CONNECTIONS_PER_BUCKET = 8  # maximum average load of the hash table
"""Each connection is in two buckets. The kernel refuses a connection whose bucket holds 50 to 79 (from 8 on
before Linux 6.3): with 15 connections per bucket it refused 4 of 4,000,000."""
_SYSCTL_PREFIX = "net.netfilter.nf_conntrack_"
# Timers of the RFCs, a tenth longer than the minima of RFC 4787 REQ-5c, RFC 5508 REQ-2, RFC 7857 section 2.1
# and RFC 5382 REQ-5 (300, 60, 240 and 7,440 s), so that a late packet finds its connection.
UDP_S, QUERY_S, OPENING_S, OPEN_S = 330, 66, 264, 8184
_TRANSITORY_STATES = (  # TCP states of connections that open or close
    "syn_sent", "syn_recv", "fin_wait", "close_wait", "last_ack", "time_wait", "close",
)  # fmt: skip
_OPEN_STATES = ("established", "unacknowledged", "max_retrans")
RFC_TIMERS: Mapping[str, int] = {  # timeouts [s] by suffix of the kernel's sysctl
    "udp_timeout": UDP_S,
    "udp_timeout_stream": UDP_S,
    "icmp_timeout": QUERY_S,
    "icmpv6_timeout": QUERY_S,
    **{f"tcp_timeout_{name}": OPENING_S for name in _TRANSITORY_STATES},
    **{f"tcp_timeout_{name}": OPEN_S for name in _OPEN_STATES},
}


class ConntrackOptions(LinuxOptions):
    """Options of devices that use the kernel's connection tracking."""

    rfc_timers: bool = False
    """Set the timers of UDP, TCP, ICMP and ICMPv6 as RFC 4787, 5382, 5508 and 7857 require, in place of
    timeout_s. Otherwise all but UDP keep the kernel's defaults, some of which are shorter."""

    log_connections: bool = False
    """Log every new connection (``conntrack -E``), as providers must; the run keeps `connections.log.gz`."""

    @model_validator(mode="after")
    def _check_timeouts(self) -> ConntrackOptions:
        if self.rfc_timers and "timeout_s" in self.model_fields_set:
            raise InvalidValue("rfc_timers replaces timeout_s: give one of them", code="conflict")
        return self

    @property
    def log_file(self) -> str:
        """Path on the device of the log of new connections; empty if nothing is logged."""
        return f"{self.state_dir}/connections.log" if self.log_connections else ""

    @property
    def artefact_paths(self) -> Mapping[str, str]:
        return {"connections.log": self.log_file} if self.log_file else {}


def get_required_sessions(configured_sessions: int, intent: Intent) -> int:
    """Return the number of connections that must fit in the device's table; 0: no requirement."""
    needed = intent.requirements.sessions
    if 0 < configured_sessions < needed:
        problem = f"dut.options.sessions is {configured_sessions:,}, but the test opens {needed:,}"
        hint = f"set sessions to {needed} or more, or leave it out"
        raise UsageError(problem, hint, dut_params={"sessions": needed}, code="out-of-range")
    return configured_sessions or needed


def _make_module_step(*, in_lab: bool) -> Step:
    """Return the step that loads the kernel module, whose settings can then be recorded and changed.

    The rollback unloads it with the modules that need it, none of which was loaded before.
    """
    unload = (
        "unload() { for m in /sys/module/$1/holders/*; do [ ! -e $m ] || unload ${m##*/}; done; "
        "modprobe -r $1; }; unload nf_conntrack 2>/dev/null; true"
    )
    load = "[ -d /sys/module/nf_conntrack ] || modprobe nf_conntrack"
    why = "the kernel's connection tracking"
    return make_module_step("nf_conntrack", why, unload, in_lab=in_lab, load=load)


def _make_table_size_steps(facts: Facts, count: int) -> list[Step]:
    if not count:
        return []
    room, buckets = facts.parse_number("conntrack_max"), facts.parse_number("conntrack_buckets")
    size = 1 << (int(count * TABLE_SIZE_FACTOR) - 1).bit_length()
    grows = room is None or room < count * TABLE_SIZE_FACTOR
    crowded = buckets is not None and buckets * CONNECTIONS_PER_BUCKET < count
    if not (grows or crowded):
        return []
    if facts.sections.get("conntrack_fixed", "").strip():
        names = ["max"] * grows + ["buckets"] * crowded
        settings = " ".join(f"{_SYSCTL_PREFIX}{name}={size}" for name in names)
        lacks = f"{buckets or 0:,} buckets of its table, {CONNECTIONS_PER_BUCKET} in each"
        lacks = f"table of {room or 0:,}" if grows else lacks
        problem = f"{count:,} connections exceed the kernel's {lacks}; only the host can change it"
        hint = f"on the host: sysctl -w {settings}; or --set-procedure connections.count=..."
        raise DutError(problem, hint, code="resource-missing")
    file = "/sys/module/nf_conntrack/parameters/hashsize"
    write, undo = f"echo {size} >{file}", f"[ -z {{old}} ] || echo {{old}} >{file}"
    why, enough = "as many buckets as connections", f"{size} or more"
    read = f"cat {file} 2>/dev/null || true"  # the module may not be loaded yet
    expected = expect_output(lambda out: out.strip().isdigit() and int(out) >= size, enough)
    more_buckets = Step(write, why, read=read, expected=expected, undo=undo)
    maximum = make_sysctl_step({f"{_SYSCTL_PREFIX}max": size}, f"room for {count} connections")
    return [maximum] * grows + [more_buckets] * (buckets is None or buckets < size)


# what ``conntrack -L`` prints for an empty table; without this line the listing failed
_EMPTY_LISTING = re.compile(r"conntrack v\S+ \(conntrack-tools\): 0 flow entries have been shown\.")


def make_flush_steps(client_networks: Sequence[str]) -> tuple[Step, ...]:
    """Return the step that deletes the connections of the clients' networks, and no others."""
    # each reads the whole table
    largest_first = sorted(client_networks, key=lambda net: int(net.rpartition("/")[2]))
    options = [f"-f ipv6 -s {net}" if ":" in net else f"-s {net}" for net in largest_first]
    commands = "; ".join(f"conntrack -D {each} >/dev/null 2>&1" for each in options)
    show = "; ".join(f"conntrack -L {each} 2>&1 | head -{MAX_OWN_CONNECTIONS}" for each in options)

    def is_empty(output: str) -> bool:
        lines = output.splitlines()
        listed = all(_EMPTY_LISTING.fullmatch(line.strip()) for line in lines)
        return listed and len(lines) == len(options)

    problem = "connections remain, or are not listed"
    proof = Check(show, expect_output(is_empty, "no connection", problem))
    why = "no connection of an earlier trial is left"
    return (Step(f"{commands}; true", why, proof=proof, deadline_s=900.0),)


def _make_log_steps(options: ConntrackOptions) -> list[Step]:
    if not options.log_connections:
        return []
    directory, file = options.state_dir, options.log_file
    pid = f"{directory}/connections.pid"
    start = (
        f"setsid sh -c 'echo $$ >{pid}; exec conntrack -E -e NEW -b 8388608' "
        f"</dev/null >{file} 2>{directory}/connections.err & sleep 0.3"
    )
    stop = f"( {make_process_stop_command(pid, 'conntrack')} ) && rm -f {file} {directory}/connections.err"
    return [make_daemon_step(start, pid, "conntrack", "every new connection is logged", stop=stop)]


_parse_count = make_sum_parser(r"\A\s*(\d+)\s*\Z", "sessions")
SESSION_READING = Reading(f"cat {COUNT_FILE}", _parse_count, "connections that the device counts")
LIMIT_SYSCTLS = (  # sysctls of the table reading, without their common prefix
    "max", "buckets", "udp_timeout", "udp_timeout_stream", "tcp_timeout_syn_sent", "tcp_timeout_syn_recv",
    "tcp_timeout_established", "tcp_timeout_time_wait", "tcp_timeout_close",
)  # fmt: skip


def make_table_reading(log_file: str = "") -> Reading:
    """Return a reading of the connection table's limits and timeouts [s], and of the log's length."""
    names = " ".join(f"{_SYSCTL_PREFIX}{name}" for name in LIMIT_SYSCTLS)
    counted = f"; echo log_records = $(wc -l <{log_file})" if log_file else ""
    parse = make_sum_parser(r"^(?:net\.netfilter\.)?(\w+)\s*=\s*(\d+)\s*$")
    return Reading(f"sysctl {names}{counted}", parse)


# parses ``conntrack -S`` and sums each counter over all cores
parse_conntrack_statistics = make_sum_parser(
    r"(?<!\S)(insert_failed|drop|early_drop|chaintoolong)=(\d+)(?!\S)"
)
INSERT_FAILURE_READING = Reading(
    "conntrack -S",
    parse_conntrack_statistics,
    "connections not created: `insert_failed` (no free port), `drop` (table full), `chaintoolong` (bucket "
    "full); `early_drop`: older ones replaced",
    {"insert_failed": LossReason.NO_ENTRY, "drop|early_drop|chaintoolong": LossReason.TABLE_FULL},
)
OCCUPANCY_READING = Reading(
    f"cat {COUNT_FILE} {COUNT_FILE.replace('_count', '_max')}",
    lambda out: dict(zip(("used", "limit"), map(float, re.findall(r"\b\d+\b", out)), strict=False)),
    "connections in the kernel's table, and its limit (`nf_conntrack_count`, `_max`)",
)


class ConntrackDriver(LinuxDriver):
    """Base class of drivers for devices that use the kernel's connection tracking."""

    options_model = ConntrackOptions

    def get_configured_timeout_s(self, intent: Intent) -> int:
        required_s = intent.get_configuration(NatConfig).udp_timeout_s
        return required_s or (UDP_S if self.options.rfc_timers else self.options.timeout_s)

    def make_tracking_steps(
        self, intent: Intent, facts: Facts, rule_steps: Iterable[Step]
    ) -> list[Step]:
        """Return the steps that track connections: module, NAT rules, timeouts, table size and log."""
        options = self.options
        values = dict(RFC_TIMERS) if options.rfc_timers else {}
        if timeout_s := self.get_configured_timeout_s(intent):
            values.update(udp_timeout=timeout_s, udp_timeout_stream=timeout_s)
        why = "connections live longer than any test: expiry would look like loss"
        if required_s := intent.get_configuration(NatConfig).udp_timeout_s:
            why = f"idle connections live for {required_s} s"
        elif options.rfc_timers:
            why = "idle connections live as long as RFC 4787, 5382, 5508 and 7857 require"
        settings = {f"{_SYSCTL_PREFIX}{name}": value for name, value in values.items()}
        count = get_required_sessions(options.sessions, intent)
        return [
            _make_module_step(in_lab=options.in_lab),
            *rule_steps,
            *([make_sysctl_step(settings, why)] if settings else []),
            *_make_table_size_steps(facts, count),
            *_make_log_steps(options),
        ]

    def get_session_reading(self, intent: Intent) -> Reading | None:
        return SESSION_READING

    def get_table_limits_reading(self, intent: Intent) -> Reading | None:
        return make_table_reading(self.options.log_file)

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        return {
            **super().get_telemetry_readings(intent),
            "sessions": SESSION_READING,
            "table": OCCUPANCY_READING,
            "conntrack": INSERT_FAILURE_READING,
        }
