"""Remove private data from runs: keep what describes the measurement, drop names of machines and paths.

Settings go by lists of what is kept, so a new option is withheld until somebody decides about it. Words
that programs wrote (failures, remarks) are kept without places, and without what the settings withhold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.core.campaigns.campaign import name_directory
from v6t.core.campaigns.file import TESTBED_SECTIONS

if TYPE_CHECKING:
    from v6t.analysis.rundata import CampaignRun

KEPT = (
    *("schema", "created", "finished", "machine", "order", "packages", "python", "run", "seed", "setup"),
    "source_commit",
)  # fmt: skip
"""Public keys of a manifest."""
_TESTER = ("kind", "engine", "kernel", "clock_source", "cores")
_DEVICE = ("kind", "system", "version", "notes", "shares_oracle", "parts")
_WHOLE = ("params", "faults", "profile")
"""Public options whose nested options are all public."""
OPTIONS = frozenset(
    (
        *(*_WHOLE, "parts", "driver", "kind", "options", "version", "neighbours", "flush"),
        *("offloads", "rss", "rps", "queues", "cores", "cpus", "governor", "clock_khz"),
        *("sessions", "timeout_s", "threads", "workers", "main_core", "cache_mib", "queue_length"),
        *("rfc_timers", "log_connections", "known_losses", "mend_checksums", "framework"),
        *("lowest_ipv6_mtu", "most_mappings", "ipv4_addr", "ipv6_addr", "dynamic_pool"),
        *("inner_network", "multi_queue", "nat44", "dscp", "hop_limit", "checks"),
        *(
            "lab",
            "ring",
            "pairs",
            "ports",
            "vlan",
            "core_list",
            "rps_cpus",
            "counting",
            "marks",
            "cache",
        ),
        *("rows", "sample", "cpu_limit", "catch_up_ms", "hardware_filter"),
    )
)
"""Public options of testers that send frames, and of device drivers."""
LINK = ("vlan", "mtu", "answers", "learning")
"""Public keys of a link."""
_NOWHERE = {"tester_mac": "00:00:5e:00:53:01", "dut_mac": "00:00:5e:00:53:02"}
"""Documentation addresses (RFC 7042) that replace the MAC addresses of a link."""
_NOWHERE_ASIDE = {"device": "2001:db8::1/64", "tester": "2001:db8::2"}
_WITHHELD = "(withheld)"
_HOSTS = ("host", "server", "jump", "ssh")
_LOCAL = ("127.0.0.1", "::1", "localhost")
_SEPARATE = r"\s/'\"`,;:()<>"
_HOME = re.compile(rf"/(home|Users)/[^{_SEPARATE}]+")
_PATH = re.compile(rf"(?<![\w./])/(?:[^{_SEPARATE}]+/)+([^{_SEPARATE}]*)")
_AT_HOST = re.compile(r"[\w.+-]+@[\w.:\[\]-]*[\w\]]")

_BUILT = re.compile(r"\bbuilt by \S+ on \S+")
"""Part of VPP's version that names the build host and user."""


def public_runs(runs: Sequence[CampaignRun], words: Words) -> list[CampaignRun]:
    """Remove private data from runs; axes that contain addresses or paths leave the run's name.

    Args:
        runs: as they were read.
        words: what their sentences are cleaned with.
    """
    return [_public(run, words) for run in runs]


class Words:
    """Removes private names, paths and hosts from texts."""

    def __init__(self, directory: Path, runs: Sequence[CampaignRun]) -> None:
        """Collect the private texts.

        Args:
            directory: of the campaign.
            runs: as they were read.
        """
        places = {
            str(directory.absolute()),
            str(directory.resolve()),
            os.getcwd(),
            str(Path.home()),
        }
        found = sorted((p for p in places if len(p) > 1), key=len, reverse=True)
        self._places = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, found))})(/|(?![\w.-]))")
        said = sorted({t for run in runs for t in _withheld_of(run)}, key=len, reverse=True)
        self._said = re.compile(
            "|".join(rf"(?<![\w-]){re.escape(s)}(?![\w-])" for s in said) or "(?!)"
        )

    def without_places(self, text: str) -> str:
        """Remove paths and hosts from a name or a sentence."""
        text = self._places.sub(lambda place: "" if place[1] else _WITHHELD, text)
        text = _PATH.sub(r"\1", _HOME.sub(r"/\1", text))
        return _AT_HOST.sub(_WITHHELD, _BUILT.sub("built", text))

    def cleaned(self, text: str) -> str:
        """Remove private words, paths and hosts from a sentence."""
        return self._said.sub(_WITHHELD, self.without_places(text))

    def within(self, value: Any) -> Any:
        """Return a structure with all its sentences cleaned."""
        if isinstance(value, Mapping):
            return {k: self.within(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.within(v) for v in value]
        if not isinstance(value, str):
            return value
        return self.cleaned(value) if " " in value else self.without_places(value)


def _public(run: CampaignRun, words: Words) -> CampaignRun:
    data = run.data
    if data is not None:
        data = replace(
            data,
            config=public_settings(data.config),
            results=words.within(data.results),
            manifest=words.within(_manifest(data.manifest)),
        )
    axes = public_axes(run.axes)
    name = run.directory
    if axes != run.axes:  # values of axes are parts of it
        name = name_directory(name.partition("-")[0], run.experiment, axes)
    failure = words.cleaned(run.failure)
    return replace(run, directory=name, axes=axes, failure=failure, data=data)


@cache
def options() -> frozenset[str]:
    """Return the names of public options; simulations have no private ones."""
    from v6t.drivers.sim.device import SimOptions

    return OPTIONS.union(SimOptions.model_fields)


def public_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config.json`` without private settings."""
    found = dict(config)
    for part in ("dut", "tester"):
        found[part] = {**config[part], "options": _options(config[part].get("options") or {})}
    for side in ("links_left", "links_right"):
        found[side] = {**_link(config[side]), **_NOWHERE}
        if config[side].get("background"):
            found[side]["background"] = {**config[side]["background"], **_NOWHERE_ASIDE}
    return found


def public_axes(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Select the axes that contain no addresses or paths."""
    return {axis: _varied(axis, value) for axis, value in axes.items() if _is_public(axis)}


def _is_public(axis: str) -> bool:
    part, *names = axis.split(".")
    if part not in TESTBED_SECTIONS:
        return True
    if part == "links":
        return all(name in ("left", "right", *LINK) for name in names)
    if names[:1] != ["options"]:
        return not names or names[0] in ("driver", "kind")
    inner = names[1:]
    while inner[:1] == ["parts"] and inner[2:3] == ["options"]:  # of a part, whose name is anything
        inner = inner[3:]
    return inner[:1] == ["parts"] or all(n in options() or inner[0] in _WHOLE for n in inner)


def _varied(axis: str, value: Any) -> Any:
    part, *names = axis.split(".")
    if part not in TESTBED_SECTIONS:
        return value
    if part == "links" and isinstance(value, Mapping):
        sides = {k: _link(v) for k, v in value.items() if k in ("left", "right")}
        return _link(value) if names else sides
    if len(names) > 1 and names[1] in _WHOLE:
        return value
    return _option(names[-1] if names else part, value)


def _link(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: values[k] for k in LINK if k in values}


def _option(name: str, value: Any) -> Any:
    """Clean the value of a public option."""
    if name in _WHOLE:
        return value
    if isinstance(value, Mapping):
        if name == "parts":
            return {part: _options(of) for part, of in value.items()}
        return _options(value)
    if isinstance(value, (list, tuple)):
        return [_option(name, v) for v in value]
    leads = isinstance(value, str) and ("@" in value or value[:1] in ("/", "~", "."))
    return _WITHHELD if leads else value


def _options(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {k: _option(k, v) for k, v in values.items() if k in options()}


def _withheld_of(run: CampaignRun) -> Iterator[str]:
    """Return the private texts of a run's settings, and host names in them."""
    known, kept = [run.axes], [public_axes(run.axes)]
    if run.data is not None:
        public = public_settings(run.data.config)
        parts = ("tester", "dut", "links_left", "links_right")
        known += [run.data.config[part] for part in parts]
        kept += [public[part] for part in parts]
    said = {text for _, text in _texts(kept)}
    for name, text in _texts(known):
        if text in said:
            continue
        if name.rpartition(".")[2] in _HOSTS:
            yield from filter(None, map(_host, text.split(",")))
        elif not (text.isalpha() or text.isdecimal() or len(text) < 4):
            yield text  # a plain word would be found in every sentence


def _host(way: str) -> str:
    """Return the host of ``user@host:port``; empty for the local host."""
    host = way.strip().rpartition("@")[2]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return "" if host in _LOCAL else host


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts of a structure with their names."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, name)


def _manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    tester = manifest.get("tester") or {}
    device = tester.get("device") or {}
    return {
        **{key: manifest[key] for key in KEPT if key in manifest},
        "tester": {
            **{key: tester[key] for key in _TESTER if key in tester},
            "device": _told(device),
        },
    }


def _told(device: Any) -> Any:
    """Keep the identity of a device and its parts; omit commands and their outputs."""
    if not isinstance(device, Mapping):
        return device
    found = {key: device[key] for key in _DEVICE if key in device}
    parts = found.get("parts")
    if isinstance(parts, Mapping):
        found["parts"] = {name: _told(part) for name, part in parts.items()}
    elif isinstance(parts, list):
        found["parts"] = [_told(part) for part in parts]
    return found
