"""The contract of a device driver, which describes commands and never runs them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.facts import Facts, Interface
from v6t.drivers.duts.header_profile import HeaderProfile, ProfiledOracle
from v6t.drivers.duts.management_path import check_management_path
from v6t.drivers.duts.options import DutOptions, Hook, HookOptions
from v6t.drivers.duts.plan import Check, DeviceChange, Intent, Plan, Step
from v6t.drivers.duts.readings import ParameterOverride, Reading
from v6t.drivers.options import parse_options
from v6t.drivers.tester import Oracle
from v6t.drivers.transport.redaction import register_secrets
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.device import Port
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import Direction

# Makes the UsageError for a setting that an implementation does not support.
make_unsupported_error = partial(UsageError, code="unsupported-by-device")
ValueT = TypeVar("ValueT")  # what a driver returns for an optional capability


class DeviceTechnology(Oracle, Protocol):
    """The technology from which the reference device is built."""

    @property
    def links(self) -> Any:
        """Links between the tester and the device."""

    @property
    def parts(self) -> Sequence[Any]:
        """Technologies of the parts of a chain; empty for a single device."""


class ChainMembership(NamedTuple):
    """Membership of a driver in a chain, of which it configures one part."""

    name: str  # name of the part
    params: Mapping[str, str]  # the chain's parameter names, by the part's parameter names

    def translate_error(self, exc: UsageError) -> UsageError:
        """Return the error with the part's parameter and option names replaced by the chain's."""
        params = {self.params[n]: value for n, value in exc.params.items() if n in self.params}
        return UsageError(
            f"{self.name}: {exc.message}",
            exc.hint,
            params=params if len(params) == len(exc.params) else {},
            dut_params={f"parts.{self.name}.options.{n}": v for n, v in exc.dut_params.items()},
            code=exc.code,
        )


class Driver(ABC):
    """Driver of one implementation or of a chain; it describes commands and never runs them."""

    name: ClassVar[str]  # name in commands and testbed files
    noun: ClassVar[str] = "driver"  # word that follows the name in messages
    title: ClassVar[str]  # phrase that describes the implementation
    # Classes of the supported configurations; ``DeviceConfig`` itself stands for all of them.
    supported_configurations: ClassVar[tuple[type[DeviceConfig], ...]]
    test_status: ClassVar[str]  # phrase on what has been tested with real frames, for plans
    # versions of the implementation, one for each set of commands, oldest first
    versions: ClassVar[tuple[str, ...]] = ("",)
    options_model: ClassVar[type[BaseModel]] = DutOptions
    # Whether it changes the kernel's routes and addresses, on which the management connection depends.
    changes_kernel_routes: ClassVar[bool] = True
    configures_device: ClassVar[bool] = True  # False: the user configures the device by hand
    is_cable: ClassVar[bool] = False  # no device: the tester's ports are connected to each other
    is_chain: ClassVar[bool] = False  # several devices in a chain, see get_parts()
    supports_background_vlans: ClassVar[bool] = False  # separate VLANs for background traffic
    session_type: ClassVar[type[Any] | None] = None  # None: that of devices with a shell
    lab_device_type: ClassVar[type[Any] | None] = None  # None: LabDut
    notes: ClassVar[tuple[str, ...]] = ()  # defaults and deviations that a reader should know
    header_profile: ClassVar[HeaderProfile] = HeaderProfile()  # default of get_header_profile()
    options: Any  # instance of ``options_model``
    chain_membership: ChainMembership | None = None  # None if it configures the whole DUT

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options(self.options_model, self.name, self.noun, settings or {})
        register_secrets(self.options.model_dump())

    @classmethod
    def convert_flags(
        cls, settings: Mapping[str, Any], flags: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the options that the ``--dut-param`` flags set."""
        return flags

    @property
    def hooks(self) -> Mapping[str, Hook]:
        """The user's commands that act on the device, by name; v6t runs them on its own machine."""
        return self.options.hooks if isinstance(self.options, HookOptions) else {}

    @property
    def device_params(self) -> Mapping[str, Any]:
        """Parameters of the technology that only the device uses."""
        return {}

    def get_logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        """Return the SSH options of each configured machine; None where they are unknown."""
        return [self.options.ssh]

    def get_parts(self, intent: Intent) -> Sequence[Any]:
        """Return the parts of a chain with their drivers; empty for a single device."""
        return ()

    def get_survey_commands(self) -> Mapping[str, str]:
        """Return read-only commands by section name; ``version`` is one of the sections."""
        return {}

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        """Parse the output of :meth:`get_survey_commands`; raise DutError if the device is unsuitable."""
        return Facts(system="", version="")

    def make_example_facts(self, intent: Intent) -> Facts:
        """Return the facts of a suitable device, for plans without a device."""
        return Facts(system="", version="")

    def assume_facts(self, intent: Intent, system: str) -> Facts:
        """Return assumed facts: both interfaces, and the configured version or else the newest."""
        links, options = intent.links, self.options
        macs = {options.left: links.left.dut_mac, options.right: links.right.dut_mac}
        interfaces = {name: Interface(mac.lower()) for name, mac in macs.items()}
        return Facts(system, options.version or self.versions[-1], interfaces=interfaces)

    def get_session_reading(self, intent: Intent) -> Reading | None:
        """Return the reading that counts ``sessions``; None if the device is stateless."""
        return None

    def has_endpoint_independent_mapping(self, intent: Intent) -> bool:
        """Return whether one session covers all peers of an inside address and port (RFC 4787)."""
        return False

    def get_table_limits_reading(self, intent: Intent) -> Reading | None:
        """Return the reading of the session table's limits; None: not supported."""
        return None

    def get_timeout_s(self, intent: Intent) -> float | None:
        """Return the lifetime of idle connections [s]; None: unlimited or unknown."""
        return None

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        """Return the readings that are sampled under load, by name."""
        return {}

    @abstractmethod
    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        """Return the plan for an intent that :meth:`check_device` accepted."""

    def check_device(self, intent: Intent, facts: Facts) -> None:  # noqa: B027  (most refuse nothing)
        """Raise UsageError if the intent is unsupported, DutError if the device's state prevents it."""

    def get_parameter_overrides(self, technology: str) -> Mapping[str, ParameterOverride]:
        """Return replacements for parameter defaults that the device does not support."""
        return {}

    def find_live_change(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        """Return a change under load that affects no test packet; None: not supported."""
        return None

    def find_route_update(self, intent: Intent, facts: Facts) -> DeviceChange | None:
        """Return the updates of a route that no test packet takes; None: not supported."""
        return None

    def plan_bgp_speaker(
        self, intent: Intent, facts: Facts
    ) -> tuple[Sequence[Step], DeviceChange] | None:
        """Return the steps that start a BGP speaker, and its route; None: not supported."""
        return None

    def plan_filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        """Return the steps that filter frames (RFC 2544, section 11.4); empty: not supported."""
        return ()

    def plan_snmp_agent(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Check] | None:
        """Return the steps that start an SNMP agent, and a query; None: not supported."""
        return None

    def plan(self, intent: Intent, facts: Facts) -> Plan:
        """Return the complete plan; raise UsageError or DutError as :meth:`check_device` does."""
        try:
            self.check_supported(intent, in_chain=self.chain_membership is not None)
            self.check_device(intent, facts)
            plan = self._add_requirements(self.plan_configuration(intent, facts), intent, facts)
        except UsageError as exc:
            if self.chain_membership is None:
                raise
            raise self.chain_membership.translate_error(exc) from exc
        ssh = self.options.ssh
        path = facts.management_path
        # the session is in the machine's own namespace: routes of another one do not affect it
        if ssh is not None and not ssh.netns and path is not None:
            path = path if self.changes_kernel_routes else replace(path, peers=())
            check_management_path(path, intent, plan)
        return plan

    def _add_requirements(self, plan: Plan, intent: Intent, facts: Facts) -> Plan:
        required = intent.requirements
        leave_out = "leave the modifier out, or choose another driver"
        if required.sessions and self.get_session_reading(intent) is not None:
            problem = "counts sessions, but does not empty the device's table between trials"
            hint = "its plan needs flush; a user's own lines, dut.options.flush"
            self._require_capability(plan.flush, problem, hint)
        if required.filters:
            problem = f"does not create filters for {intent.technology}"
            filters = self.plan_filters(intent, facts, required.filters)
            plan = plan.extend(self._require_capability(filters, problem, leave_out))
        if required.snmp_agent:
            hint = "use the modifier management, which reads over the driver's connection"
            agent = self.plan_snmp_agent(intent, facts)
            steps, query = self._require_capability(agent, "does not start an SNMP agent", hint)
            plan = plan.extend(steps, management_query=query)
        if required.route_updates:
            steps, change = (), self.find_route_update(intent, facts)
            if required.bgp_speaker:
                steps, change = self.plan_bgp_speaker(intent, facts) or ((), None)
            problem = "does not change routes under traffic" + " by BGP" * required.bgp_speaker
            update = self._require_capability(change, problem, leave_out)
            plan = plan.extend((*steps, update.removal_step), route_update=update)
        if required.live_change:
            problem = f"cannot change anything of {intent.technology} under traffic"
            hint = "leave reconfiguration out of --measure, or choose another driver"
            change = self._require_capability(self.find_live_change(intent, facts), problem, hint)
            plan = plan.extend([change.removal_step], live_change=change)
        return plan

    def _require_capability(self, capability: ValueT | None, problem: str, hint: str) -> ValueT:
        if not capability:
            problem = f"the {self.name} driver {problem}"
            raise UsageError(problem, hint, code="unsupported-operation")
        return capability

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        """Raise UsageError for an intent that no version or option of this implementation supports."""
        if not isinstance(intent.configuration, cls.supported_configurations):
            raise cls.make_refusal(intent)

    @classmethod
    def make_refusal(cls, intent: Intent, hint: str = "") -> UsageError:
        """Return the error for a technology that the driver does not support."""
        technology = intent.technology
        problem = f"the {cls.name} driver cannot make a device for {technology}"
        hint = hint or "`v6t dut list` prints the technologies of each driver"
        return UsageError(problem, hint, technology=technology, code="unsupported-technology")

    def check_intent(self, intent: Intent) -> None:
        """Raise UsageError for an intent that the driver supports on no device."""
        self.check_supported(intent)
        if intent.links.background_vlans is not None and not self.supports_background_vlans:
            problem = f"the {self.name} driver does not support separate VLANs for the background"
            hint = "leave links.*.background out, or choose another driver"
            raise UsageError(problem, hint, code="no-background")

    def has_equal_commands(self, first_intent: Intent, second_intent: Intent) -> bool:
        """Return whether the plans of two intents have the same commands."""
        if not self.configures_device or self.is_chain:
            return first_intent == second_intent
        plans = (self.plan(i, self.make_example_facts(i)) for i in (first_intent, second_intent))
        first, second = ([(s.command, s.text) for s in plan.steps] for plan in plans)
        return first == second

    def describe_flush(self, intent: Intent) -> str:
        """Return the commands that clear the connection table, for the report."""
        plan = self.plan(intent, self.make_example_facts(intent))
        return "; ".join(step.command for step in plan.flush)

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        """Return how the device's frames differ from the reference translation."""
        return self.header_profile

    def adapt_oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        """Return an oracle that expects the frames of this implementation."""
        profile = self.get_header_profile(intent)
        return oracle if profile.equals_reference else ProfiledOracle(oracle, profile)

    def get_further_hops(self, intent: Intent, direction: Direction) -> int:
        """Return the number of hops that a packet takes beyond those of the technology."""
        return self.get_header_profile(intent).further_hops


def require_root(facts: Facts) -> None:
    """Raise DutError unless commands on the device run as root."""
    if not facts.is_root:
        hint = "log in as root, or set ssh.become to 'sudo -n' or 'doas -n'"
        raise DutError("commands on the device do not run as root", hint, code="not-root")


def check_interfaces(options: DutOptions, intent: Intent, facts: Facts) -> None:
    """Raise DutError if an interface is missing, miscabled or carries the management connection."""
    protected = facts.find_protected_interfaces()
    port_side: Port
    for port_side in ("left", "right"):
        name = getattr(options, port_side)
        expected_mac = getattr(intent.links, port_side).dut_mac.lower()
        side = intent.links.get_port(port_side)  # side in the testbed file
        subject = f"the {side} interface {name}"
        if name in protected:
            problem = f"{subject} must not be changed: {protected[name]}"
            hint = f"name another one with dut.options.{side}"
            raise DutError(problem, hint, code="interface-protected")
        if (interface := facts.interfaces.get(name)) is None:
            known = ", ".join(sorted(facts.interfaces))
            near = [n for n, i in facts.interfaces.items() if i.mac == expected_mac]
            problem = f"the device has no interface {name} (dut.options.{side}); it has {known}"
            hint = f"{near[0]} has the MAC address {expected_mac}" if near else ""
            raise DutError(problem, hint, code="unknown-interface")
        if interface.mac != expected_mac:
            problem = f"{subject} has MAC address {interface.mac}, not {expected_mac}"
            hint = f"set links.{side}.dut_mac in the testbed file, or name another interface"
            raise DutError(problem, hint, code="wrong-interface")
        if interface.is_up and not interface.has_carrier:
            problem = f"{subject} has no carrier"
            raise DutError(problem, "is the cable plugged in?", code="no-carrier")
