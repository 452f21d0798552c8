"""Jool's counters, as its telemetry reports them.

The sources of 4.0.9 to 4.2.0-rc3 have counters of totals, of dropped packets, and of packets that Jool hands
back to the kernel for want of a rule, which are no loss. Counters of later versions count as dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from v6t.drivers.duts.readings import LossReason, make_sum_parser

# counters of totals, which do not show whether packets were translated or dropped
_TOTAL_COUNTERS = re.compile(
    r"JSTAT_(RECEIVED[46]|SUCCESS|BIB_ENTRIES|SESSIONS|TYPE[12]PKT|ICMP[46]ERR_(SUCCESS|FAILURE))$"
)
_NON_PACKET_COUNTERS = re.compile(r"JSTAT_(JOOLD_\w+|PADDING)$")  # not reported
# counters of packets that Jool hands back to the kernel
_UNTRANSLATED_COUNTERS = re.compile(
    r"JSTAT(64|46)_(SRC|DST)$|JSTAT_(POOL[46]_MISMATCH|MAPT_(ADDR4|POOL6|EUI6P|FMR[46])|"
    r"UNKNOWN_(L4_PROTO|PROTO_INNER))$"
)
# counters of packets that NAT64 hands back to the kernel, but SIIT and MAP-T drop
_NAT64_UNTRANSLATED_COUNTERS = re.compile(r"JSTAT_UNKNOWN_ICMP[46]_TYPE$")
# loss reasons by pattern of the names that :func:`parse_packet_counters` returns
LOSS_REASONS = {
    r"dropped: out of ports.*": LossReason.TABLE_FULL,
    r"dropped: no connection.*": LossReason.NO_CONNECTION,
    r"dropped: (no memory|the kernel did not take|none that it knows).*|dropped \(.*": LossReason.QUEUE,
    r"dropped: .*": LossReason.RULE,
}
# reasons by counter, as reports show them
_DROP_REASONS = {
    "JSTAT_ENOMEM": "no memory",
    "JSTAT_XLATOR_DISABLED": "it is disabled",
    "JSTAT_POOL6_UNSET": "it has no prefix",
    "JSTAT_UNTRANSLATABLE_DST6": "an IPv6 address without translation",
    "JSTAT_UNTRANSLATABLE_DST4": "an IPv4 address without translation",
    "JSTAT_UNKNOWN_ICMP4_TYPE": "an ICMP message without translation",
    "JSTAT_UNKNOWN_ICMP6_TYPE": "an ICMPv6 message without translation",
    "JSTAT_FAILED_ROUTES": "no route for what it made",
    "JSTAT_PKT_TOO_BIG": "too large for the next link",
    "JSTAT_DST_OUTPUT": "the kernel did not take it for sending",
    "JSTAT_BIB6_NOT_FOUND": "out of ports for a client",
    "JSTAT_BIB4_NOT_FOUND": "no connection for an IPv4 packet",
    "JSTAT_SESSION_NOT_FOUND": "no connection for an ICMP error",
    "JSTAT_MASK_DOMAIN_NOT_FOUND": "no public address for its protocol",
    "JSTAT_ADF": "address-dependent filtering",
    "JSTAT_SYN6_EXPECTED": "TCP without a beginning, IPv6",
    "JSTAT_SYN4_EXPECTED": "TCP without a beginning, IPv4",
    "JSTAT_V4_SYN": "TCP begun from outside",
    "JSTAT_HAIRPIN_LOOP": "its source is of the translator's own prefix",
    "JSTAT64_TTL": "its hop limit is at its end",
    "JSTAT46_TTL": "its TTL is at its end",
    "JSTAT64_6791_ENOENT": "no IPv4 address for the source of an ICMPv6 error",
    "JSTAT46_6791_ENOENT": "no IPv6 address for the source of an ICMP error",
    "JSTAT46_FRAGMENTED_ZERO_CSUM": "no UDP checksum",
    "JSTAT46_BAD_MTU": "the next link's MTU is none of IPv6",
    "JSTAT_MAPT_PSID": "a source port of another CE",
    "JSTAT_MAPT_BAD_PRPF": "its port set is none",
    "JSTAT_UNKNOWN": "none that it knows; of TCP also a pool without a free port",
}


# parses the output of ``stats display --csv --no-headers`` into values by counter
parse_statistics = make_sum_parser(r"^\s*(JSTAT\w*),\s*(\d+)\s*$")
parse_sessions = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "sessions")
# parses the number of entries in NAT64's connection table, which has no limit
parse_occupancy = make_sum_parser(r"^\s*JSTAT_SESSIONS,\s*(\d+)\s*$", "used")


def parse_packet_counters(text: str, *, nat64: bool = False) -> Mapping[str, float]:
    """Parse the packet counters, keyed by telemetry names such as ``dropped: REASON (COUNTER)``."""
    counters = parse_statistics(text).items()
    return {
        _format_counter_name(n, nat64=nat64): value
        for n, value in counters
        if not _NON_PACKET_COUNTERS.match(n)
    }


def _format_counter_name(name: str, *, nat64: bool) -> str:
    """Return the telemetry name of a counter, which tells what happened to the packets."""
    if _TOTAL_COUNTERS.match(name):
        return name.removeprefix("JSTAT_").lower().replace("_", " ")
    if _UNTRANSLATED_COUNTERS.match(name) or (nat64 and _NAT64_UNTRANSLATED_COUNTERS.match(name)):
        return f"not translated ({name})"
    words = _DROP_REASONS.get(name)
    return f"dropped: {words} ({name})" if words else f"dropped ({name})"
