"""The reference device, and devices that are configured by hand."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import HookOptions
from v6t.drivers.duts.plan import Intent, Plan
from v6t.drivers.lab.faults import Faults
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.families import DeviceConfig


class ReferenceOptions(HookOptions):
    """Options of the reference device in the lab, or of a device that is configured by hand."""

    params: dict[str, Any] = Field(default_factory=dict)
    """Plugin parameters that only the device uses: a wrong device, for tests of v6t."""
    faults: Faults = Faults()  #: Faults of the device.


class UnconfiguredDriver(Driver):
    """Base of drivers that do not configure a device."""

    noun = "device"
    supported_configurations = (DeviceConfig,)
    test_status = "measured with real frames of every technology"
    configures_device = False
    supports_background_vlans = True

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        problem = f"the {self.name} device needs no configuration"
        raise UsageError(problem, "name a driver with --driver", code="missing-driver")

    def describe_flush(self, intent: Intent) -> str:
        return self.hooks["flush"].command if "flush" in self.hooks else "by hand"

    def get_logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        return []


class ReferenceDriver(UnconfiguredDriver):
    """Driver of the reference device in the lab, or of a device that is configured by hand."""

    name = "reference"
    title = "the plugin's own reference translation behind two interfaces of the lab"
    options_model: ClassVar[type[StrictModel]] = ReferenceOptions

    @property
    def device_params(self) -> Mapping[str, Any]:
        params: Mapping[str, Any] = self.options.params
        return params

    @classmethod
    def convert_flags(
        cls, settings: Mapping[str, Any], flags: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return {"params": {**settings.get("params", {}), **flags}} if flags else {}


class CableOptions(StrictModel):
    """Options of a cable between the tester's ports, in place of a device.

    In the lab v6t connects the ports itself. Frames must come back as they were sent, so that the tester
    itself is measured.
    """


class CableDriver(UnconfiguredDriver):
    """Driver of a cable between the tester's ports, without a device."""

    name = "cable"
    title = "no device: a cable between the tester's ports, to measure the tester itself"
    test_status = "measured with real frames"
    options_model = CableOptions
    is_cable = True
