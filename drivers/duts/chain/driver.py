"""A device under test that consists of several parts in a row, each with its own driver.

This is the dual-DUT setup of RFC 8219, section 4.2, or a device with two implementations in a row. The
intent lists the parts; ``dut.options.parts`` may choose another driver for each.

Several parts may share a machine. A kernel drops its own packets when they return by another interface,
and one routing table cannot hold the routes of two parts to the same hosts. A second part in the kernel
therefore needs its own network namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.driver import ChainMembership, Driver
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import ChainOracle, HeaderProfile
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.drivers.duts.registry import load_driver_type, make_driver
from v6t.drivers.duts.session.undo_store import PART_PREFIX
from v6t.drivers.tester import Oracle
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.device import DeviceIntent, DeviceRequirements, PartIntent
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.header_policy import HeaderPolicy

# values of HeaderPolicy.zero_checksum, from lenient to strict
_ZERO_CHECKSUM_VALUES: tuple[Literal["always", "ipv6", "never"], ...] = ("always", "ipv6", "never")


class ChainPart:
    """A part of a chain with its driver, and its intent on the links of the chain."""

    def __init__(self, part: PartIntent, intent: DeviceIntent, driver: Driver) -> None:
        self.name, self.device, self.stateful = part.name, part.device, part.stateful
        self.ipv4_direction = part.to_ipv4
        self.intent, self.driver = intent, driver
        self.profile = driver.get_header_profile(intent)


class ChainPartOptions(StrictModel):
    """Driver and options of one part."""

    driver: str = ""  #: Driver of the part; empty: the technology's choice.
    options: dict[str, Any] = Field(default_factory=dict)  #: Options of this driver.


class ChainOptions(DutOptions):
    """Options of a chain of devices."""

    parts: dict[str, ChainPartOptions] = Field(default_factory=dict)
    """Driver and options by the name of a part; the technology chooses those of the others."""


class ChainDriver(Driver):
    """Driver of a chain of devices, made of the drivers of its parts."""

    name = "chain"
    title = "a chain of several parts, each with its own driver"
    supported_configurations = (DeviceConfig,)
    test_status = "see the drivers of its parts"
    options_model = ChainOptions
    is_chain = True

    def get_parts(self, intent: Intent) -> tuple[ChainPart, ...]:
        chosen = list(intent.parts)
        for part in intent.alternatives:
            if part.name in self.options.parts:
                index = [each.name for each in chosen].index(part.replaces[0])
                chosen[index : index + len(part.replaces)] = [part]
        names = [part.name for part in chosen]
        if unknown := [name for name in self.options.parts if name not in names]:
            others = [p for p in intent.alternatives if p.name not in names]
            instead = "".join(f"; {p.name} in place of {' and '.join(p.replaces)}" for p in others)
            problem = f"unknown part '{unknown[0]}' of the chain"
            raise UsageError(problem, f"parts: {', '.join(names)}{instead}", code="unknown-name")
        parts: list[ChainPart] = []
        for part in chosen:
            driver = self._make_part_driver(part, parts, swapped=intent.links.swapped)
            try:
                driver.check_supported(part.intent, in_chain=True)
            except UsageError as exc:
                # suggest another driver for the part, not for the whole device
                raise UsageError(exc.message, exc.hint, code=exc.code) from exc
            sessions = intent.requirements.sessions if part.stateful else 0
            links = replace(part.intent.links, swapped=intent.links.swapped)
            requirements = DeviceRequirements(sessions=sessions)
            part_intent = replace(part.intent, links=links, requirements=requirements)
            parts.append(ChainPart(part, part_intent, driver))
        return tuple(parts)

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        if not intent.parts:
            raise cls.make_refusal(intent, "name the driver of one device")

    def _make_part_driver(
        self, part: PartIntent, earlier_parts: Sequence[ChainPart], *, swapped: bool
    ) -> Driver:
        """Return the driver of a part, whose state directory depends on the earlier parts."""
        chosen = self.options.parts.get(part.name, ChainPartOptions())
        if (name := chosen.driver or part.driver) == self.name:
            problem = "a chain cannot be part of a chain"
            raise UsageError(problem, "name the driver of one device", code="chain-conflict")
        is_reference = not load_driver_type(name).configures_device
        if is_reference and not part.has_reference:
            problem = f"no reference translation exists for the part '{part.name}'"
            hint = "it is stateful: leave out its driver, or name another"
            raise UsageError(problem, hint, code="missing-reference")
        if is_reference and chosen.options:
            problem = f"the reference translation of '{part.name}' has no options"
            raise UsageError(problem, code="invalid-intent")
        options = {**(part.options if name == part.driver else {}), **chosen.options}
        driver = make_driver(name, options, swapped=swapped)
        if directory := choose_state_directory(earlier_parts, part.name, driver):
            driver = make_driver(name, {**options, "state_dir": directory}, swapped=swapped)
        driver.chain_membership = ChainMembership(part.name, part.params)
        return driver

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        steps: list[Step] = []
        flush: list[Step] = []
        notes: list[str] = []
        for part in self.get_parts(intent):
            if not part.driver.configures_device:
                notes.append(f"{part.name}: the reference translation; nothing to configure")
                continue
            plan = part.driver.plan(part.intent, part.driver.make_example_facts(part.intent))
            steps += [replace(s, why=f"{part.name}: {s.why}") for s in plan.steps]
            flush += [replace(s, why=f"{part.name}: {s.why}") for s in plan.flush]
            notes += [f"{part.name} ({part.driver.title}): {note}" for note in plan.notes]
        return Plan(self.name, "", tuple(steps), tuple(flush), notes=tuple(notes))

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        hops = count_further_hops(self.get_parts(intent))
        why = f"{hops} hops beyond one for each device" if hops else ""
        return HeaderProfile(further_hops=hops, why=why)

    def get_further_hops(self, intent: Intent, direction: Direction) -> int:
        return count_hops_in_direction(self.get_parts(intent), direction)

    def get_timeout_s(self, intent: Intent) -> float | None:
        timeouts = [p.driver.get_timeout_s(p.intent) for p in self.get_parts(intent) if p.stateful]
        return min((limit for limit in timeouts if limit is not None), default=None)

    def check_intent(self, intent: Intent) -> None:
        super().check_intent(intent)
        self.get_parts(intent)

    def adapt_oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        parts = self.get_parts(intent)
        translators = {d: find_translator_profile(parts, d) for d in DIRECTIONS}
        hops = {d: count_hops_in_direction(parts, d) for d in DIRECTIONS}
        df = {d: profile.df for d, profile in translators.items()}
        policy = combine_policies(parts, translators)
        plain = not any(hops.values()) and set(df.values()) == {"reference"}
        if plain and policy == HeaderPolicy():
            return oracle
        return ChainOracle(oracle, hops, df, policy)

    def get_logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        return [p.driver.options.ssh for p in self.get_parts(intent) if p.driver.configures_device]


def count_further_hops(parts: tuple[ChainPart, ...]) -> int:
    """Return how many hops a packet takes inside the chain beyond one for each device."""
    return sum(1 + p.profile.further_hops for p in parts) - len({p.device for p in parts})


def count_hops_in_direction(parts: tuple[ChainPart, ...], direction: Direction) -> int:
    """Return the number of further hops in a direction that decrement the TTL of inner IPv4 packets."""
    hops = count_further_hops(parts)
    for part in parts:
        side = getattr(part.intent.configuration, "ipv6_side", "left")
        leaves = direction == ("reverse" if side == "right" else "forward")
        hops -= part.profile.exit_keeps_ttl if leaves else part.profile.tunnel_keeps_ttl
    return hops


def combine_policies(
    parts: tuple[ChainPart, ...], translator_profiles: Mapping[Direction, HeaderProfile]
) -> HeaderPolicy:
    """Return the policy for headers after the last part, combined from the profiles of all parts."""
    profiles = [part.profile for part in parts]
    zeros = {p.zero_checksum for p in profiles}
    either = [d for d, profile in translator_profiles.items() if profile.dont_fragment == "either"]
    return HeaderPolicy(
        absent_checksum=any(p.absent_checksum for p in profiles),
        zero_checksum=next(value for value in _ZERO_CHECKSUM_VALUES if value in zeros),
        dont_fragment="either" if len(either) > 1 else either[0] if either else "exact",
    )


def find_translator_profile(parts: tuple[ChainPart, ...], direction: Direction) -> HeaderProfile:
    """Return the profile of the last translator to IPv4 in a direction, or the default profile."""
    from_its_end = parts if direction == "reverse" else parts[::-1]
    return next((p.profile for p in from_its_end if p.ipv4_direction == direction), HeaderProfile())


def choose_state_directory(earlier_parts: Sequence[ChainPart], name: str, driver: Driver) -> str:
    """Return the directory for a part that shares a machine, or '' to use the one in its options.

    The first part on a machine uses the directory in its options, with the machine's lock. Each part has
    its own timer, record and files.
    """
    if not driver.configures_device or driver.options.ssh is None:
        return ""
    ssh, directory = driver.options.ssh, driver.options.state_dir
    remote_parts = _find_remote_parts(earlier_parts)
    neighbors = [p for p in remote_parts if p.driver.options.ssh.machine == ssh.machine]
    for part in neighbors:
        # user commands may or may not configure the kernel
        if part.driver.options.ssh.netns == ssh.netns and all(
            d.changes_kernel_routes and DeviceConfig not in d.supported_configurations
            for d in (part.driver, driver)
        ):
            raise UsageError(
                f"the parts {part.name} and {name} would share the kernel of {ssh.text}, which "
                "does not forward frames from one to the other",
                "give one of them a network namespace on it, with the interfaces of its two cables: "
                f"`ip netns add {name}` there, and dut.options.parts.{name}.options.ssh.netns: {name}",
                code="chain-conflict",
            )
    used_directories = {part.driver.options.state_dir for part in neighbors}
    return f"{directory}/{PART_PREFIX}{name}" if directory in used_directories else ""


def check_lab_placement(parts: Sequence[ChainPart]) -> None:
    """Raise UsageError if two parts are in the same namespace of the lab."""
    part_names: dict[tuple[str, str], str] = {}
    for part in _find_remote_parts(parts):
        ssh = part.driver.options.ssh
        if (earlier := part_names.setdefault((ssh.lab, ssh.netns), part.name)) != part.name:
            problem = f"the parts {earlier} and {part.name} share a namespace of the lab, {ssh.lab}"
            hint = f"give one dut.options.parts.{part.name}.options.ssh.netns, or another ssh.lab"
            raise UsageError(problem, hint, code="chain-conflict")


def _find_remote_parts(parts: Iterable[ChainPart]) -> list[ChainPart]:
    return [p for p in parts if p.driver.configures_device and p.driver.options.ssh is not None]
