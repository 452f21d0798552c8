"""Capabilities of a driver for a technology, derived from the driver's own methods."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.drivers.duts.plan import Intent

# Technology settings that not every device supports, each with a value that is not the default.
OPTIONAL_SETTINGS: Mapping[str, Any] = {
    "udp_timeout_s": 300,
    "port_block": 64,
    "session_limit": 100_000,
    "lowest_ipv6_mtu": 1400,
}
TIMER_SETTINGS = ("udp_timeout_s",)  # optional settings that are lifetimes of connections


def find_capabilities(driver: Driver, *intents: Intent) -> dict[str, tuple[str, ...]]:
    """Return what a driver supports for some technologies, without connecting to a device.

    Returns:
        The ``versions`` of the implementation, optional ``settings`` of the technologies, ``options`` that
        only this driver has, ``timers`` among both, ``counters`` in its telemetry, and optional
        ``operations``, without empty entries.
    """
    found: dict[str, list[str]] = {}
    for intent in intents:
        settings = [name for name in OPTIONAL_SETTINGS if _can_configure(driver, intent, name)]
        timers = [name for name in settings if name in TIMER_SETTINGS]
        capabilities: dict[str, Iterable[str]] = {
            "versions": filter(None, driver.versions),
            "settings": settings,
            "options": list_driver_options(driver.options_model),
            "timers": timers if driver.get_timeout_s(intent) is None else [*timers, "timeout_s"],
            "counters": (name.partition(" ")[0] for name in driver.get_telemetry_readings(intent)),
            "operations": _list_operations(driver, intent),
        }
        for name, values in capabilities.items():
            found.setdefault(name, []).extend(values)
    return {name: tuple(dict.fromkeys(values)) for name, values in found.items() if values}


def list_driver_options(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the options that a driver adds to the shared ones or declares differently."""
    shared = {name for base in (DutOptions, LinuxOptions) for name in base.model_fields}
    declared = set() if model in (DutOptions, LinuxOptions) else model.__annotations__.keys()
    return tuple(name for name in model.model_fields if name not in shared or name in declared)


def _can_configure(driver: Driver, intent: Intent, setting: str) -> bool:
    """Return whether an optional setting changes the commands in the driver's plan."""
    if setting not in type(intent.configuration).model_fields:
        return False
    changed = intent.configuration.model_copy(update={setting: OPTIONAL_SETTINGS[setting]})
    with suppress(UsageError, DutError):
        return not driver.has_equal_commands(intent, replace(intent, configuration=changed))
    return False


def _list_operations(driver: Driver, intent: Intent) -> list[str]:
    facts = driver.make_example_facts(intent)
    operations = {
        "count sessions": lambda: driver.get_session_reading(intent),
        "read the size of the table": lambda: driver.get_table_limits_reading(intent),
        "empty the table": lambda: driver.plan(intent, facts).flush,
        "filter": lambda: driver.plan_filters(intent, facts, 1),
        "answer SNMP": lambda: driver.plan_snmp_agent(intent, facts),
        "speak BGP": lambda: driver.plan_bgp_speaker(intent, facts),
        "change routes": lambda: driver.find_route_update(intent, facts),
        "change its configuration": lambda: driver.find_live_change(intent, facts),
    }
    possible = []
    for name, find in operations.items():
        with suppress(UsageError, DutError):
            if find():
                possible.append(name)
    return possible
