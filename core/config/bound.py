"""A run with the objects its settings name: made once, then handed to whoever needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from v6t.benchmarks import registry
from v6t.core.config.plugins import load_plugin
from v6t.core.config.settings import ResolvedRun
from v6t.core.config.technology import links_of, on_device, params_of
from v6t.core.modifiers.registry import MODIFIERS
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.testers import kind_of
from v6t.intent.device import DeviceRequirements

if TYPE_CHECKING:
    from v6t.core.modifiers.base import Modifier
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.tester import Oracle
    from v6t.drivers.tester_kind import TesterKind
    from v6t.plugins.base import DeviceIntent, Technology
    from v6t.profiles.model import Traffic


@dataclass(frozen=True)
class BoundRun:
    """A resolved run and what its names stand for.

    Attributes:
        settings: what stands in the run directory.
        technology: the plugin as the tester sees it.
        device: the plugin as the reference device sees it: the same, but for the device's own
            overrides.
        driver: of the device under test.
        tester: which kind, with its options.
        rollback_command: rolls the device back; empty: `v6t dut rollback` with the run directory.
        notes: what became of the settings otherwise than one may think, in sentences.
    """

    settings: ResolvedRun
    technology: Technology
    device: Technology
    driver: Driver
    tester: TesterKind
    rollback_command: str = ""
    notes: tuple[str, ...] = ()

    @property
    def driven(self) -> bool:
        """Whether a driver configures the device."""
        return self.driver.configures and not self.tester.simulates

    @property
    def measures_tester(self) -> bool:
        """Whether the run can measure the tester alone: it joins its own ports, or there is no device."""
        return self.tester.loops_back or self.driver.absent

    @cached_property
    def modifier(self) -> Modifier | None:
        """What goes on beside the test traffic; None: nothing.

        Raises:
            UsageError: there is none of this name.
        """
        name = self.settings.modifier
        return None if name is None else MODIFIERS.load(name)()

    def modified(self, traffic: Traffic) -> Traffic:
        """Traffic of a direction with what the modifier sends."""
        if self.modifier is None:
            return traffic
        return self.modifier.traffic(traffic, self.technology.links)

    @cached_property
    def intent(self) -> DeviceIntent:
        """What the device must be, with what the run requires of it."""
        run = self.settings
        fills_table = run.connects and any(registry.load(n).fills_table for n in run.benchmarks)
        modifier = self.modifier
        requirements = replace(
            DeviceRequirements() if modifier is None else modifier.requirements,
            live_change=self.reconfigures,
            sessions=run.procedure.connections.count if fills_table else 0,
        )
        return replace(self.technology.dut_intent(), requirements=requirements)

    @property
    def reconfigures(self) -> bool:
        """Something of the device is added, changed and removed under traffic."""
        return any(registry.load(name).reconfigures for name in self.settings.benchmarks)

    def describe_live_change(self) -> str:
        """Return what a driven device is changed in under traffic; empty: nothing.

        Raises:
            UsageError: the driver changes nothing of this technology.
        """
        plan = self.driver.plan(self.intent, self.driver.example(self.intent))
        change = plan.live_change
        return "" if change is None else change.what + (change.how and f" ({change.how})")

    @cached_property
    def oracle(self) -> Oracle:
        """Who knows the frames this device must emit: the technology, as the driver's device does it."""
        if self.tester.simulates:
            return self.technology
        return self.driver.oracle(self.technology, self.technology.dut_intent())

    @property
    def timeout_s(self) -> float | None:
        """The device's idle connections live so long [s]; None: for ever, or unknown."""
        if self.tester.simulates:
            return self.tester.timeout_s
        own = self.driver.timeout_s(self.intent) if self.driven else self.tester.timeout_s
        # a device that somebody else configures is described by the same settings
        configured = getattr(self.intent.configuration, "udp_timeout_s", 0) or None
        return min((limit for limit in (own, configured) if limit is not None), default=None)

    @property
    def emptying(self) -> str:
        """How the device's table is emptied between trials, in words or commands (ST-10)."""
        return "simulated" if self.tester.simulates else self.driver.emptying(self.intent)


def bind(settings: ResolvedRun) -> BoundRun:
    """Look every name of a run up, once.

    Raises:
        UsageError: a plugin, driver or tester is gone, or no longer takes these parameters.
    """
    plugin = load_plugin(settings.plugin)
    links = links_of(settings.links_left, settings.links_right, settings.initiator)
    technology = plugin(params_of(plugin, settings.params), links)
    driver = make_driver(settings.dut.driver, settings.dut.options, swapped=links.swapped)
    return BoundRun(
        settings,
        technology,
        on_device(technology, settings.params, driver.overrides),
        driver,
        kind_of(settings.tester.kind, settings.tester.options),
    )
