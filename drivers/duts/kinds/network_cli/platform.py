"""Platform definitions from scrapli: prompts, rejections, and the lines after a login.

The way to the device is v6t's own. See https://github.com/scrapli/scrapli_definitions.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError
from v6t.base.errors import EnvironmentLacking, UsageError


def get_platform_options(platform: str) -> dict[str, Any]:
    """Return the settings of a scrapli platform for :class:`CliOptions`."""
    path = Path(platform).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        folder = _find_definitions_directory()
        path = folder / f"{platform}.yaml"
        if "/" in platform or not path.is_file():
            known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
            problem = f"unknown scrapli platform '{platform}'"
            raise UsageError(problem, f"it has {known}", code="unknown-platform")
    try:
        definition = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, YAMLError) as exc:
        text = " ".join(str(exc).split())[:200]
        problem = f"the platform {platform} cannot be read: {text}"
        raise UsageError(problem, code="file-unreadable") from exc
    if not isinstance(definition, dict) or not isinstance(definition.get("prompt_pattern"), str):
        raise UsageError(f"the platform {platform} lacks a prompt_pattern", code="unknown-platform")
    # Python has possessive quantifiers from 3.11 on
    prompt = re.sub(r"([?*+])\+", r"\1", definition["prompt_pattern"])
    sent = [step.get("send_input") for step in definition.get("on_open_instructions") or ()]
    settings = {
        "errors": [re.escape(str(text)) for text in definition.get("failure_indicators") or ()],
        "open": [str(step["input"]) for step in sent if step],
        "enable": _read_enable_command(definition),
    }
    return {"prompt": prompt, **{name: value for name, value in settings.items() if value}}


def _read_enable_command(definition: dict[str, Any]) -> str:
    """Return the command that prompts for a password to enter the default mode, or ''."""
    paths = (
        p for mode in definition.get("modes") or () for p in mode.get("accessible_modes") or ()
    )
    prompted = (
        step["send_prompted_input"]["input"]
        for path in paths
        if path.get("name") == definition.get("default_mode")
        for step in path.get("instructions") or ()
        if "send_prompted_input" in step
    )
    return str(next(prompted, ""))


def _find_definitions_directory() -> Path:
    spec = importlib.util.find_spec("scrapli")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if Path(folder, "definitions").is_dir():
            return Path(folder, "definitions")
    problem = "dut.options.platform names a platform of scrapli, which is not installed"
    hint = "pip install 'v6t[network-cli]', or describe the command line with dut.options.cli"
    raise EnvironmentLacking(problem, hint, code="unknown-platform")
