"""The manifest of a run: versions, machine, time and the test setup."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from v6t.core.config.settings import Settings
from v6t.drivers import clock
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.plugins.base import Technology
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Role

# Packages whose versions the manifest contains.
LISTED_PACKAGES = ("v6t", "numpy", "scapy", "pydantic", "click", "rich", "ruamel.yaml")


def make_manifest(run: Settings, plugin: Technology, *, simulated: bool) -> dict[str, Any]:
    """Return versions, machine, seed, start time and test setup of a run as JSON values."""
    commit = find_commit()
    return {
        "schema": "v6t-manifest/1",
        "run": os.urandom(8).hex(),  # also in every line of the journal
        "created": format_utc_now(),
        "seed": run.seed,
        "packages": {name: version(name) for name in LISTED_PACKAGES},
        "source_commit": commit,
        "versions": [_describe_version(version("v6t"), commit)],
        "python": sys.version.split()[0],
        "machine": describe_machine(),
        "setup": {**describe_setup(plugin, run.frame_sizes), "simulated": simulated},
    }


def add_version(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a resumed run; this version is added unless it measured last."""
    known, current = list_versions(manifest), _describe_version(version("v6t"), find_commit())
    return {**manifest, "versions": known if known[-1:] == [current] else [*known, current]}


def list_versions(manifest: Mapping[str, Any]) -> list[str]:
    """Return the versions of v6t that measured a run; older manifests only name that of its start."""
    if (versions := manifest.get("versions")) is not None:
        return [*versions]
    packages, commit = manifest.get("packages") or {}, manifest.get("source_commit")
    first = _describe_version(packages.get("v6t"), commit)
    return [first] if first else []


def _describe_version(number: str | None, commit: str | None) -> str:
    """Return a version of v6t, with its commit if it ran from a source tree."""
    return ", commit ".join(str(part) for part in (number, commit) if part)


def describe_setup(plugin: Technology, frame_sizes: Sequence[int | str]) -> dict[str, Any]:
    """Return devices and links from left to right, and mean frame sizes on both sides."""
    return {
        "sides": list(plugin.sides),
        "ip_versions": list(plugin.ip_versions),
        "native": plugin.native,
        "middle_version": plugin.middle_version,
        "headers": [_list_headers(plugin, direction, frame_sizes[0]) for direction in DIRECTIONS],
        "devices": [
            {"name": role.name, "stateful": role.stateful, "what": role.variant}
            for role in plugin.roles
        ],
        "octets": {
            sizes.label if sizes.mix else str(sizes.ipv6): _compute_mean_octets(plugin, sizes)
            for sizes in map(plugin.make_sizes, frame_sizes)
        },
    }


def _compute_mean_octets(plugin: Technology, sizes: Sizes) -> list[float]:
    """Return the mean size of foreground frames on the left and on the right [octets]."""
    sides = [(plugin.list_link_sizes(pair), count) for pair, count in sizes.pair_counts]
    frames = sum(count for _, count in sides)
    if frames == 1:
        return list(sides[0][0])
    return [round(sum(s[side] * n for s, n in sides) / frames, 3) for side in (0, 1)]


def _list_headers(plugin: Technology, direction: Direction, size: int | str) -> list[str]:
    """Return the protocols above Ethernet in a direction, from the outermost to the innermost."""
    if plugin.exchange == "queries":
        version = plugin.ip_versions[direction == "reverse"]
        return [f"IPv{version}", "UDP", "DNS"]
    classes = plugin.build_sized_traffic(direction, plugin.make_sizes(size)).classes
    first = next((c for c in classes if c.role is Role.FOREGROUND), classes[0])
    names = (layer.name for layer in first.layers if layer.name not in ("Ether", "Dot1Q", "Dot1AD"))
    return ["IPv4" if name == "IP" else name for name in names]


def describe_machine() -> dict[str, Any]:
    """Return properties of this machine, such as processor and kernel; None if unreadable."""
    text = _read_system_file("/proc/cpuinfo") or ""
    models = re.findall(r"^model name\s*:(.*)$", text, re.MULTILINE)
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": models[0].strip() if models else platform.processor() or None,
        "cores": len(os.sched_getaffinity(0)),
        "governor": _read_system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": _read_system_file("/sys/devices/system/cpu/smt/active"),
        "isolated_cores": _read_system_file("/sys/devices/system/cpu/isolated"),
        "clock_source": clock.read_source(),
        "memory_kib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024,
    }


def format_utc_now() -> str:
    """Return the current time in UTC as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@cache
def find_commit() -> str | None:
    """Return the Git commit of this source tree, marked if modified; None outside a checkout."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    words = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _read_system_file(path: str) -> str | None:
    """Return the content of a system file; None if it is unreadable or empty."""
    try:
        return Path(path).read_text().strip() or None
    except OSError:
        return None
