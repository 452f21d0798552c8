"""Plans without a device, and outputs that were recorded on one."""

from __future__ import annotations

from pathlib import Path

from v6t.drivers.duts.registry import make_driver

CAPTURED = Path(__file__).parent / "captured"


def read_captured(name):
    return (CAPTURED / name).read_text()


def make_plan(driver, intent, **options):
    made = make_driver(driver, options)
    return made.plan(intent, made.example(intent))
