"""What a Linux device shows of itself under load, each in one cheap read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from v6t.drivers.duts.driver import Reading

_HEX = re.compile(r"[0-9a-f]{8}(\s+[0-9a-f]{8}){2,}")
_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def readings(*ports: str) -> dict[str, Reading]:
    """Cores, softnet, and drops of these interfaces."""
    found = {
        "cpu": Reading("cat /proc/stat", cpu),
        "softnet": Reading("cat /proc/net/softnet_stat", softnet),
    }
    for port in ports:
        found[f"link {port}"] = Reading(f"ip -s -o link show dev {port}", link)
    return found


def cpu(text: str) -> Mapping[str, float]:
    """Ticks of each core of ``/proc/stat``: ``cpu0.idle``, ``cpu0.softirq``, ``cpu0.total``..."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].startswith("cpu") or words[0] == "cpu":
            continue
        ticks = dict(zip(_CPU_FIELDS, map(float, words[1:]), strict=False))
        found[f"{words[0]}.idle"] = ticks.get("idle", 0) + ticks.get("iowait", 0)
        found[f"{words[0]}.softirq"] = ticks.get("softirq", 0) + ticks.get("irq", 0)
        found[f"{words[0]}.steal"] = ticks.get("steal", 0)
        found[f"{words[0]}.total"] = sum(ticks.values())
    return found


def softnet(text: str) -> Mapping[str, float]:
    """Frames dropped before the stack, and budgets exhausted, of all cores together."""
    rows = [line.split() for line in text.splitlines() if _HEX.fullmatch(line.strip())]
    return {
        "dropped": float(sum(int(r[1], 16) for r in rows)),
        "squeezed": float(sum(int(r[2], 16) for r in rows)),
    }


def link(text: str) -> Mapping[str, float]:
    r"""Packets and drops of ``ip -s -o link`` (its lines are joined by backslashes)."""
    found: dict[str, float] = {}
    lines = [line.split() for line in text.split("\\")]
    for head, values in pairwise(lines):
        if not head or head[0] not in ("RX:", "TX:"):
            continue
        way = head[0][:2].lower()
        for name, value in zip(head[1:], values, strict=False):
            if name in ("packets", "errors", "dropped", "overrun", "missed") and value.isdigit():
                found[f"{way}.{name}"] = float(value)
    return found


def number(name: str) -> Reading:
    """A file that holds one number."""

    def parse(text: str) -> Mapping[str, float]:
        return {"sessions": float(text.strip())} if text.strip().isdigit() else {}

    return Reading(f"cat {name}", parse)
