"""Packaged campaigns, found without importing the campaign reader."""

from __future__ import annotations

from pathlib import Path

from v6t.base.errors import UsageError


def list_packaged_campaigns() -> dict[str, Path]:
    """Return the paths of the campaigns that come with v6t, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def locate_campaign(name: str) -> Path:
    """Return the path of a campaign file, given its path or the name of a packaged campaign."""
    path = Path(name)
    if path.exists():
        return path
    known = list_packaged_campaigns()
    if name in known:
        return known[name]
    problem = f"unknown campaign file '{name}'"
    hint = "packaged campaigns: " + ", ".join(known)
    raise UsageError(problem, hint, code="unknown-name")
