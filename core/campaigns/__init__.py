"""Campaigns: many runs that one file describes."""

from pathlib import Path

from v6t.base.errors import UsageError


def list_packaged_campaigns() -> dict[str, Path]:
    """Return the paths of the campaigns that come with v6t, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def locate_campaign(name: str) -> Path:
    """Return the path of a campaign file, given its path or the name of a packaged campaign."""
    path, known = Path(name), list_packaged_campaigns()
    if name in known and (path.is_dir() or not path.exists()):  # `-o zoo` makes a directory
        return known[name]
    if not path.exists():
        hint = "packaged campaigns: " + ", ".join(known)
        raise UsageError(f"unknown campaign file '{name}'", hint, code="unknown-name")
    return path
