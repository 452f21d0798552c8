"""The checkout as its packaging sees it."""

from __future__ import annotations

import configparser
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""Where the rooms are."""

ROOMS = ("analysis", "core", "drivers", "plugins", "procedures", "profiles")


def setup():
    """setup.cfg."""
    parser = configparser.ConfigParser(delimiters=("=",))
    assert parser.read(CHECKOUT / "setup.cfg"), "these tests need a checkout"
    return parser


def listed(text):
    """Lines of a setup.cfg value."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def folders():
    """Folders of the rooms that hold Python, relative to the checkout."""
    return sorted(
        {p.parent.relative_to(CHECKOUT) for room in ROOMS for p in (CHECKOUT / room).rglob("*.py")}
    )


def modules():
    """Files of the rooms, relative to the checkout."""
    return sorted(
        p.relative_to(CHECKOUT) for room in ROOMS for p in (CHECKOUT / room).rglob("*.py")
    )
