"""Remove private data from runs: host names, addresses of devices, paths and user names.

Settings are published only if they are listed here, so that a new option stays private until a maintainer
lists it. Free text (failures, warnings) is published without paths, host names and private settings.
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

MANIFEST_KEYS = (
    *("schema", "created", "finished", "machine", "order", "packages", "python", "run", "seed", "setup"),
    *("source_commit", "versions"),
)  # fmt: skip
TESTER_KEYS = ("kind", "engine", "kernel", "clock_source", "cores")
DEVICE_KEYS = ("kind", "system", "version", "notes", "shares_oracle", "parts")
LINK_KEYS = ("vlan", "mtu", "answers", "learning")
PUBLIC_SUBTREES = ("params", "faults", "profile")
"""Options whose nested options are all public."""
PUBLIC_OPTIONS = frozenset(
    (
        *(*PUBLIC_SUBTREES, "parts", "driver", "kind", "options", "version", "neighbours", "flush"),
        *("offloads", "rss", "rps", "queues", "cores", "cpus", "governor", "clock_khz"),
        *("sessions", "timeout_s", "threads", "workers", "main_core", "cache_mib", "queue_length"),
        *("rfc_timers", "log_connections", "known_losses", "mend_checksums", "framework"),
        *("lowest_ipv6_mtu", "most_mappings", "ipv4_addr", "ipv6_addr", "dynamic_pool"),
        *("inner_network", "multi_queue", "nat44", "dscp", "hop_limit", "checks"),
        *("lab", "ring", "pairs", "ports", "vlan", "core_list", "rps_cpus", "counting", "marks"),
        *("cache", "rows", "sample", "cpu_limit", "catch_up_ms", "hardware_filter"),
    )
)
"""Public options of device drivers and of testers that send frames."""
_LINK_PLACEHOLDERS = {"tester_mac": "00:00:5e:00:53:01", "dut_mac": "00:00:5e:00:53:02"}  # RFC 7042
_BACKGROUND_PLACEHOLDERS = {"device": "2001:db8::1/64", "tester": "2001:db8::2"}
_WITHHELD = "(withheld)"
_HOST_KEYS = ("host", "server", "jump", "ssh")
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
_SEPARATORS = r"\s/'\"`,;:()<>"
_HOME = re.compile(rf"/(home|Users)/[^{_SEPARATORS}]+")
_PATH = re.compile(rf"(?<![\w./])/(?:[^{_SEPARATORS}]+/)+([^{_SEPARATORS}]*)")
_USER_AT_HOST = re.compile(r"[\w.+-]+@[\w.:\[\]-]*[\w\]]")
_VPP_BUILD_HOST = re.compile(r"\bbuilt by \S+ on \S+")


class Redactor:
    """Replaces paths, host names and the texts of private settings."""

    def __init__(self, directory: Path, runs: Sequence[CampaignRun]) -> None:
        """Collect the private texts.

        Args:
            directory: directory of the campaign.
            runs: runs of the campaign as they were read.
        """
        paths = {
            str(directory.absolute()),
            str(directory.resolve()),
            os.getcwd(),
            str(Path.home()),
        }
        longest_first = sorted((path for path in paths if len(path) > 1), key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first))
        self._paths = re.compile(rf"(?<![\w.])(?:{alternatives})(/|(?![\w.-]))")
        private = {text for run in runs for text in _list_private_texts(run)}
        texts = sorted(private, key=len, reverse=True)
        self._texts = re.compile(
            "|".join(rf"(?<![\w-]){re.escape(text)}(?![\w-])" for text in texts) or "(?!)"
        )

    def redact_paths(self, text: str) -> str:
        """Remove paths and hosts from a name or a sentence."""
        text = self._paths.sub(lambda match: "" if match[1] else _WITHHELD, text)
        text = _PATH.sub(r"\1", _HOME.sub(r"/\1", text))
        return _USER_AT_HOST.sub(_WITHHELD, _VPP_BUILD_HOST.sub("built", text))

    def redact_text(self, text: str) -> str:
        """Remove paths, hosts and private settings from a sentence."""
        return self._texts.sub(_WITHHELD, self.redact_paths(text))

    def redact_value(self, value: Any) -> Any:
        """Redact all texts of a nested structure; texts without a space are names."""
        if isinstance(value, Mapping):
            return {key: self.redact_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact_value(item) for item in value]
        if not isinstance(value, str):
            return value
        return self.redact_text(value) if " " in value else self.redact_paths(value)

    def redact_run(self, run: CampaignRun) -> CampaignRun:
        """Return a run without private data; private axes also leave the run's directory name."""
        data = run.data
        if data is not None:
            config, results = select_settings(data.config), self.redact_value(data.results)
            for content in (config, results):
                content["label"] = self.redact_text(str(data.config.get("label") or ""))
            data = replace(
                data,
                config=config,
                results=results,
                manifest=self.redact_value(_select_manifest(data.manifest)),
            )
        axes = select_axes(run.axes)
        directory = run.directory
        if axes != run.axes:  # the name contains the values of the axes
            directory = name_directory(directory.partition("-")[0], run.experiment, axes)
        failure = self.redact_text(run.failure)
        return replace(run, directory=directory, axes=axes, failure=failure, data=data)


@cache
def list_public_options() -> frozenset[str]:
    """Return the names of all public options, including those of simulated devices."""
    from v6t.drivers.sim.device import SimOptions

    return PUBLIC_OPTIONS.union(SimOptions.model_fields)


def select_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config.json`` without private settings; addresses become documentation addresses."""
    public = dict(config)
    for part in ("dut", "tester"):
        options = _select_options(config[part].get("options") or {})
        public[part] = {**config[part], "options": options}
    for side in ("links_left", "links_right"):
        public[side] = {**_select_keys(config[side], LINK_KEYS), **_LINK_PLACEHOLDERS}
        if background := config[side].get("background"):
            public[side]["background"] = {**background, **_BACKGROUND_PLACEHOLDERS}
    return public


def select_axes(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes without addresses and paths."""
    return {
        axis: _select_axis_value(axis, value)
        for axis, value in axes.items()
        if _is_public_axis(axis)
    }


def _is_public_axis(axis: str) -> bool:
    section, *names = axis.split(".")
    if section not in TESTBED_SECTIONS:
        return True
    if section == "links":
        return all(name in ("left", "right", *LINK_KEYS) for name in names)
    if names[:1] != ["options"]:
        return not names or names[0] in ("driver", "kind")
    options = names[1:]
    while options[:1] == ["parts"] and options[2:3] == ["options"]:  # parts have arbitrary names
        options = options[3:]
    return options[:1] == ["parts"] or all(
        name in list_public_options() or options[0] in PUBLIC_SUBTREES for name in options
    )


def _select_axis_value(axis: str, value: Any) -> Any:
    section, *names = axis.split(".")
    if section not in TESTBED_SECTIONS:
        return value
    if section == "links" and isinstance(value, Mapping):
        if names:
            return _select_keys(value, LINK_KEYS)
        sides = ("left", "right")
        return {k: _select_keys(v, LINK_KEYS) for k, v in value.items() if k in sides}
    if len(names) > 1 and names[1] in PUBLIC_SUBTREES:
        return value
    return _redact_option(names[-1] if names else section, value)


def _redact_option(name: str, value: Any) -> Any:
    """Return the value of a public option without nested private options and paths."""
    if name in PUBLIC_SUBTREES:
        return value
    if isinstance(value, Mapping):
        if name == "parts":
            return {part: _select_options(options) for part, options in value.items()}
        return _select_options(value)
    if isinstance(value, (list, tuple)):
        return [_redact_option(name, item) for item in value]
    is_private = isinstance(value, str) and ("@" in value or value[:1] in ("/", "~", "."))
    return _WITHHELD if is_private else value


def _select_options(options: Any) -> Any:
    if not isinstance(options, Mapping):
        return options
    return {
        name: _redact_option(name, value)
        for name, value in options.items()
        if name in list_public_options()
    }


def _select_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    tester = manifest.get("tester") or {}
    public = _select_keys(manifest, MANIFEST_KEYS)
    public["tester"] = _select_keys(tester, TESTER_KEYS)
    public["tester"]["device"] = _select_device(tester.get("device") or {})
    return public


def _select_device(device: Any) -> Any:
    """Return the identity of a device and its parts, without commands and their output."""
    if not isinstance(device, Mapping):
        return device
    public = _select_keys(device, DEVICE_KEYS)
    parts = public.get("parts")
    if isinstance(parts, Mapping):
        public["parts"] = {name: _select_device(part) for name, part in parts.items()}
    elif isinstance(parts, list):
        public["parts"] = [_select_device(part) for part in parts]
    return public


def _select_keys(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _list_private_texts(run: CampaignRun) -> Iterator[str]:
    """Yield the texts of a run's private settings, and the host names in them."""
    settings, public_settings = [run.axes], [select_axes(run.axes)]
    if run.data is not None:
        public_config = select_settings(run.data.config)
        for part in ("tester", "dut", "links_left", "links_right"):
            settings.append(run.data.config[part])
            public_settings.append(public_config[part])
    public_texts = {text for _, text in _walk_texts(public_settings)}
    for name, text in _walk_texts(settings):
        if text in public_texts:
            continue
        if name.rpartition(".")[2] in _HOST_KEYS:
            yield from filter(None, map(_parse_host, text.split(",")))
        elif not (text.isalpha() or text.isdecimal() or len(text) < 4):
            yield text  # single words and numbers would match in any sentence


def _parse_host(address: str) -> str:
    """Return the host of ``user@host:port``; empty for the local host."""
    host = address.strip().rpartition("@")[2]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return "" if host in _LOCAL_HOSTS else host


def _walk_texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, text) for each text of a nested structure."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for inner_key, item in value.items():
            yield from _walk_texts(item, str(inner_key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk_texts(item, key)
