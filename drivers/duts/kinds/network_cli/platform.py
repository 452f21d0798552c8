"""What scrapli knows of a platform's command line: its definitions are files, of which some things are used.

Prompts, what a refusal looks like, and the lines after a login. The way to the device is v6t's own.
See https://github.com/scrapli/scrapli_definitions.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError
from v6t.base.errors import EnvironmentLacking, UsageError


def definition(platform: str) -> Mapping[str, Any]:
    """Read the definition of a platform.

    Args:
        platform: its name, or a file.

    Raises:
        UsageError: there is none, or it is no definition.
        EnvironmentLacking: scrapli is not installed.
    """
    path = Path(platform).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        place = _installed()
        path = place / f"{platform}.yaml"
        if "/" in platform or not path.is_file():
            known = ", ".join(sorted(p.stem for p in place.glob("*.yaml")))
            raise UsageError(
                f"unknown scrapli platform '{platform}'", f"it has {known}", code="unknown-platform"
            )
    try:
        read = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, YAMLError) as exc:
        text = " ".join(str(exc).split())[:200]
        raise UsageError(
            f"the platform {platform} cannot be read: {text}", code="file-unreadable"
        ) from exc
    if not isinstance(read, dict) or not isinstance(read.get("prompt_pattern"), str):
        raise UsageError(
            f"the platform {platform} lacks a prompt_pattern",
            code="unknown-platform",
        )
    return read


def manners_in(read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of :class:`v6t.drivers.duts.console.manners.Manners` in a definition."""
    found: dict[str, Any] = {"prompt": _portable(read["prompt_pattern"])}
    indicators = [re.escape(str(text)) for text in read.get("failure_indicators") or ()]
    if indicators:
        found["errors"] = indicators
    first = [str(step["send_input"]["input"]) for step in _steps(read, "send_input")]
    if first:
        found["open"] = first
    enable = _enable(read)
    if enable:
        found["enable"] = enable
    return found


def _steps(read: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    for step in read.get("on_open_instructions") or ():
        if isinstance(step, dict) and isinstance(step.get(kind), dict):
            yield step


def _enable(read: Mapping[str, Any]) -> str:
    """Return the command that leads from a lesser mode to the usual one, for a password."""
    for mode in read.get("modes") or ():
        for way in mode.get("accessible_modes") or ():
            if way.get("name") != read.get("default_mode"):
                continue
            for step in way.get("instructions") or ():
                asked = step.get("send_prompted_input")
                if asked:
                    return str(asked["input"])
    return ""


def _portable(pattern: str) -> str:
    """Without possessive quantifiers, which Python has from 3.11 on."""
    return re.sub(r"([?*+])\+", r"\1", pattern)


def _installed() -> Path:
    spec = importlib.util.find_spec("scrapli")
    places = (
        [Path(p) / "definitions" for p in (spec.submodule_search_locations or ())] if spec else []
    )
    for place in places:
        if place.is_dir():
            return place
    raise EnvironmentLacking(
        "dut.options.platform names a platform of scrapli, whose definitions are not installed",
        "pip install 'v6t[network-cli]', or say how its command line behaves with dut.options.cli",
        code="unknown-platform",
    )
