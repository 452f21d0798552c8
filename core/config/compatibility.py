"""Drivers that can configure a device for a technology, by the configuration of its default intent."""

from contextlib import suppress
from functools import cache

from v6t.base.errors import V6tError
from v6t.core.config.plugins import list_names, load_technology_type
from v6t.drivers.duts import registry
from v6t.drivers.duts.capabilities import find_capabilities
from v6t.intent.device import DeviceIntent
from v6t.intent.families import DeviceConfig
from v6t.plugins.base import Technology


def accepts_any_technology(driver: str) -> bool:
    """Return whether a driver accepts any technology because it runs the user's commands."""
    kind = registry.load_driver_type(driver)
    return DeviceConfig in kind.supported_configurations and not kind.is_chain


def can_configure(driver: str, technology: str) -> bool:
    """Return whether a driver can configure a technology with its default parameters.

    A broken driver or plugin of another distribution cannot.
    """
    try:
        if accepts_any_technology(driver):
            return False
        intent = _make_default_intent(load_technology_type(technology))
        registry.load_driver_type(driver).check_supported(intent)
    except V6tError:
        return False
    return True


def list_compatible_drivers(technology: str, *, exclude_reference: bool = False) -> list[str]:
    """Return the drivers that can configure a technology, except those that run user commands.

    Args:
        technology: name of the technology.
        exclude_reference: leave out the reference device, which has no configuration.
    """
    drivers = [name for name in registry.list_driver_names() if can_configure(name, technology)]
    with suppress(V6tError):  # an unknown technology has no default
        if not exclude_reference and not load_technology_type(technology).default_driver:
            drivers.insert(0, registry.DEFAULT_DRIVER)
    return drivers


def list_technologies(driver: str) -> tuple[str, ...]:
    """List the technologies that a driver can configure; empty if it accepts any."""
    names = () if accepts_any_technology(driver) else list_names()
    return tuple(name for name in names if can_configure(driver, name))


def list_capabilities(driver: str) -> list[tuple[str, str]]:
    """Return the names and values of a driver's capabilities, combined over its technologies."""
    technologies = list_technologies(driver)
    intents = [_make_default_intent(load_technology_type(name)) for name in technologies]
    capabilities = find_capabilities(registry.make_driver(driver, {}), *intents)
    rows = {"technologies": technologies or ("any",), **capabilities}
    return [(name, ", ".join(values)) for name, values in rows.items()]


@cache
def _make_default_intent(kind: type[Technology]) -> DeviceIntent:
    return kind().make_dut_intent()
