"""What ``--set`` and its kin say, as the nested values a file would hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from v6t.base.errors import UsageError


def expanded(flags: Mapping[str, str]) -> dict[str, Any]:
    """``fw_dport.min=1`` becomes a nested mapping; values starting with [ or { are YAML."""
    out: dict[str, Any] = {}
    for name, value in flags.items():
        *path, last = name.split(".")
        place = out
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise UsageError(
                    f"--set {name}: '{part}' is given as a whole already", code="duplicate"
                )
        place[last] = _value(name, value)
    return out


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, mappings within them alike."""
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = laid_over(under, value)
        else:
            merged[name] = value
    return merged


def _value(name: str, text: str) -> Any:
    if not text.startswith(("[", "{")):
        return text
    from v6t.core.config.yaml_document import flow_value

    try:
        return flow_value(text)
    except ValueError as exc:
        raise UsageError(f"--set {name}: '{text:.80}' {exc}", code="invalid-yaml") from exc
