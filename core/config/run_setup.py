"""A run with the objects that its settings name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.benchmarks import registry
from v6t.core.config.plugins import MODIFIERS, load_technology_type
from v6t.core.config.settings import Settings
from v6t.core.config.yaml_file import Origin, locate_errors, validate
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.placement import has_few_cpus
from v6t.drivers.testers import load_kind
from v6t.intent.device import DeviceRequirements
from v6t.plugins.address_plan import check_addresses
from v6t.plugins.base import Links, PluginParams, Technology
from v6t.trials.trial import TIMING_CAPABILITIES, Capability

if TYPE_CHECKING:
    from v6t.benchmarks.base import Benchmark
    from v6t.core.modifiers.base import Modifier
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.duts.plan import Plan
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.tester import Oracle, Tester
    from v6t.drivers.tester_kind import TesterKind
    from v6t.plugins.base import DeviceIntent
    from v6t.profiles.model import Traffic

SHARED_CORES_CAPACITY = 0.5  # usable share of the capacity if tester and device share cores


@dataclass(frozen=True)
class RunSetup:
    """Settings of a run with the technology, driver and tester that they name."""

    settings: Settings  # content of the run directory's ``config.json``
    technology: Technology  # as the tester sees it
    device_view: Technology  # as configured on the device, with its own overrides
    driver: Driver  # of the device under test
    tester: TesterKind  # kind of the tester, with its options
    rollback_command: str = ""  # empty: `v6t dut rollback` with the run directory
    resolution_warnings: tuple[str, ...] = ()  # about settings that resolution has changed

    @cached_property
    def benchmarks(self) -> tuple[Benchmark[Any, Any], ...]:
        """Benchmarks that the settings name."""
        return tuple(map(registry.load, self.settings.benchmarks))

    @property
    def has_driver(self) -> bool:
        """Whether a driver configures the device."""
        return self.driver.configures_device and not self.tester.simulates

    @property
    def has_user_device(self) -> bool:
        """Whether there is a device that the user configures."""
        return not self.can_measure_tester and not self.driver.configures_device

    @property
    def can_measure_tester(self) -> bool:
        """Whether the run can measure the tester alone, by a loopback or without a device."""
        return self.tester.can_loop_back or self.driver.is_cable

    @property
    def search_share(self) -> float:
        """Upper bound of a rate search, as a share of the tester's own capacity.

        In a demonstration on two cores, the tester cannot send more while the device works.
        """
        shares_cores = has_few_cpus() and self.tester.in_lab and not self.driver.is_cable
        return SHARED_CORES_CAPACITY if shares_cores and self.settings.preset == "quick" else 1.0

    @cached_property
    def modifier(self) -> Modifier | None:
        """Additional condition of the trials, such as broadcasts; None if the run has none."""
        name = self.settings.modifier
        return None if name is None else MODIFIERS.load(name)()

    def add_modifier(self, traffic: Traffic) -> Traffic:
        """Return the traffic of a direction with the modifier's frames added."""
        if self.modifier is None:
            return traffic
        return self.modifier.add_frames(traffic, self.technology.links)

    @cached_property
    def intent(self) -> DeviceIntent:
        """Required state of the device, with the requirements of this run."""
        run = self.settings
        fills_table = run.connects and any(b.fills_table for b in self.benchmarks)
        requirements = replace(
            self.modifier.requirements if self.modifier else DeviceRequirements(),
            live_change=any(b.reconfigures for b in self.benchmarks),
            sessions=run.procedure.connections.count if fills_table else 0,
        )
        return replace(self.technology.make_dut_intent(), requirements=requirements)

    @property
    def connection_needs(self) -> tuple[int, frozenset[Capability]]:
        """Largest number of connections, and what the tester must be able to do with them."""
        fillers = (b for b in self.benchmarks if b.fills_table)
        needs = frozenset(need for b in fillers for need in b.list_capabilities(self))
        return max((b.find_max_connections(self) for b in self.benchmarks), default=0), needs

    @cached_property
    def example_plan(self) -> Plan:
        """Plan of the driver for a device that meets all of its expectations."""
        return self.driver.plan(self.intent, self.driver.make_example_facts(self.intent))

    def describe_live_change(self) -> str:
        """Return a description of the configuration change under traffic; empty without one."""
        change = self.example_plan.live_change
        return "" if change is None else change.description + (change.note and f" ({change.note})")

    @cached_property
    def oracle(self) -> Oracle:
        """Oracle for the frames that this device must emit."""
        if self.tester.simulates:
            return self.technology
        return self.driver.adapt_oracle(self.technology, self.technology.make_dut_intent())

    @property
    def timeout_s(self) -> float | None:
        """Lifetime of the device's idle connections [s]; None if unlimited or unknown."""
        if self.tester.simulates:
            return self.tester.timeout_s
        own = self.driver.get_timeout_s(self.intent) if self.has_driver else self.tester.timeout_s
        # the same settings describe a device that the user configures
        configured = getattr(self.intent.configuration, "udp_timeout_s", 0) or None
        return min((limit for limit in (own, configured) if limit is not None), default=None)

    @property
    def flush_description(self) -> str:
        """Description of how the device's table is emptied between trials."""
        return "simulated" if self.tester.simulates else self.driver.describe_flush(self.intent)


def make_setup(settings: Settings) -> RunSetup:
    """Return a run with the technology, tester and driver that its settings name."""
    technology = load_technology(settings)
    swapped = technology.links.swapped
    driver = make_driver(settings.dut.driver, settings.dut.options, swapped=swapped)
    device = make_device_view(technology, settings.params, driver.device_params)
    tester = load_kind(settings.tester.kind, settings.tester.options)
    return RunSetup(settings, technology, device, driver, tester)


def build_lab_device(setup: RunSetup, record_dir: Path | None = None) -> LabDevice:
    """Return the lab device of a run, which writes its undo record to ``record_dir``."""
    from v6t.drivers.duts.devices import make_lab_device

    return make_lab_device(setup.driver, setup.device_view, setup.intent, record_dir)


def make_tester(
    setup: RunSetup, *, loopback: bool = False, record_dir: Path | None = None
) -> Tester:
    """Return the tester of a run, not yet open.

    Args:
        loopback: leave the device out.
        record_dir: local directory for the device's undo record.

    Raises:
        EnvironmentLacking: this machine cannot run the tester.
    """
    links, intent = setup.technology.links, setup.technology.make_dut_intent()
    loopback = loopback or setup.driver.is_cable
    return setup.tester.make(
        links if loopback else intent.emulated_links,
        build_lab_device(setup, record_dir) if setup.tester.in_lab and not loopback else None,
        loopback=loopback,
        delays=any(TIMING_CAPABILITIES & b.list_capabilities(setup) for b in setup.benchmarks),
        seed=setup.settings.seed,
    )


def load_technology(settings: Settings) -> Technology:
    """Return the technology that the settings of a run name."""
    plugin = load_technology_type(settings.plugin)
    params = validate(plugin.params_model, settings.params, None, ("params",))
    return plugin(params, settings.technology_links)


def make_technology(
    kind: type[Technology],
    params: PluginParams,
    links: Links,
    origin: Origin = None,
    prefix: tuple[str, ...] = ("params",),
) -> Technology:
    """Return a technology; reject invalid addresses, reported at the key path ``prefix`` in ``origin``."""
    technology = kind(params, links)
    with locate_errors(origin, *prefix):
        check_addresses(technology.make_dut_intent(), params)
    return technology


def make_device_view(
    technology: Technology,
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    origin: Origin = None,
) -> Technology:
    """Return the technology as configured on the device, where ``overrides`` replace ``values``."""
    if not overrides:
        return technology
    kind, prefix = type(technology), ("dut", "options", "params")
    params = validate(kind.params_model, {**values, **overrides}, origin, prefix)
    return make_technology(kind, params, technology.links, origin, prefix)
