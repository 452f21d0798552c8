"""A device under test that consists of several parts in a row, each with its own driver.

The dual-DUT setup of RFC 8219 section 4.2, and devices whose implementation is made of two. The
intent says which parts there are; ``dut.options.parts`` may give each another driver.

Several parts may be on one machine. What leaves a kernel by one interface and comes back by another one is
its own packet, which it drops; and routes of two parts to the same hosts cannot both be in one table. So a
second part that is the kernel's needs a network namespace of its own on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

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
from v6t.intent.device import DeviceIntent, DeviceRequirements, PartIntent
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.header_policy import HeaderPolicy

if TYPE_CHECKING:
    from v6t.drivers.transport.ssh_options import SshOptions


_ZERO_CHECKSUM_VALUES: tuple[Literal["always", "ipv6", "never"], ...] = ("always", "ipv6", "never")
"""Values of :attr:`HeaderPolicy.zero_checksum`, the strictest last."""


@dataclass(frozen=True)
class ChainPart:
    """A part of a chain with its driver; ``device`` names the device that contains it, such as ``CE``."""

    name: str
    device: str
    stateful: bool
    intent: DeviceIntent
    driver: Driver
    to_ipv4: Direction | None = None
    """Direction in which it translates IPv6 to IPv4; None: in neither."""

    @property
    def profile(self) -> HeaderProfile:
        return self.driver.get_header_profile(self.intent)


class ChainPartOptions(StrictModel):
    """The driver of a part with its options; empty: the technology's own choice."""

    driver: str = ""
    options: dict[str, Any] = Field(default_factory=dict)


class ChainOptions(DutOptions):
    """Options of a chain: the drivers of its parts."""

    parts: dict[str, ChainPartOptions] = Field(default_factory=dict)


class ChainDriver(Driver):
    """Driver of a chain, which combines the drivers of the parts."""

    name = "chain"
    title = "several parts one after the other, each with its own driver"
    supported_configurations = (DeviceConfig,)
    tested_with = "as its parts' drivers are"
    options_model = ChainOptions
    is_chain = True

    def get_parts(self, intent: Intent) -> tuple[ChainPart, ...]:
        chosen = list(intent.parts)
        for part in intent.alternatives:
            if part.name in self.options.parts:
                index = [each.name for each in chosen].index(part.replaces[0])
                chosen[index : index + len(part.replaces)] = [part]
        names = [part.name for part in chosen]
        unknown = next((name for name in self.options.parts if name not in names), None)
        if unknown is not None:
            instead = "".join(
                f"; {part.name} in place of {' and '.join(part.replaces)}"
                for part in intent.alternatives
                if part.name not in names
            )
            problem = f"unknown part '{unknown}' of the chain"
            raise UsageError(problem, f"parts: {', '.join(names)}{instead}", code="unknown-name")
        parts: list[ChainPart] = []
        for part in chosen:
            driver = self._make_part_driver(part, parts, swapped=intent.links.swapped)
            try:
                driver.check_supported(part.intent, in_chain=True)
            except UsageError as exc:  # another driver is the part's remedy, not the whole device's
                raise UsageError(exc.message, exc.hint, code=exc.code) from exc
            sessions = intent.requirements.sessions if part.stateful else 0
            links = replace(part.intent.links, swapped=intent.links.swapped)
            requirements = DeviceRequirements(sessions=sessions)
            part_intent = replace(part.intent, links=links, requirements=requirements)
            parts.append(
                ChainPart(part.name, part.device, part.stateful, part_intent, driver, part.to_ipv4)
            )
        return tuple(parts)

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        if not intent.parts:
            raise cls.make_refusal(intent, "name the driver of one device")

    def _make_part_driver(
        self, part: PartIntent, earlier_parts: Sequence[ChainPart], *, swapped: bool
    ) -> Driver:
        chosen = self.options.parts.get(part.name, ChainPartOptions())
        name = chosen.driver or part.driver
        if name == self.name:
            problem = "a chain cannot be part of a chain"
            raise UsageError(problem, "name the driver of one device", code="chain-conflict")
        is_reference = not load_driver_type(name).configures_device
        if is_reference and not part.has_reference:
            problem = f"no reference translation exists for the part '{part.name}'"
            hint = "it keeps connections: leave out its driver, or name another"
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
        words = f"{hops} hops beyond one for each device" if hops else ""
        return HeaderProfile(further_hops=hops, why=words)

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
        last = {way: get_last_translator_profile(parts, way) for way in DIRECTIONS}
        hops = {way: count_hops_in_direction(parts, way) for way in DIRECTIONS}
        df = {way: profile.df for way, profile in last.items()}
        policy = combine_policies(parts, last)
        plain = not any(hops.values()) and set(df.values()) == {"reference"}
        if plain and policy == HeaderPolicy():
            return oracle
        return ChainOracle(oracle, hops, df, policy)

    def get_logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        return [p.driver.options.ssh for p in self.get_parts(intent) if p.driver.configures_device]


def count_further_hops(parts: tuple[ChainPart, ...]) -> int:
    """Count the hops inside the chain beyond one for each device."""
    return sum(1 + p.profile.further_hops for p in parts) - len({p.device for p in parts})


def count_hops_in_direction(parts: tuple[ChainPart, ...], direction: Direction) -> int:
    """Count further hops of inner IPv4 packets in a direction; some tunnel ends keep the TTL."""
    hops = count_further_hops(parts)
    for part in parts:
        side = getattr(part.intent.configuration, "ipv6_side", "left")
        leaves = direction == ("reverse" if side == "right" else "forward")
        hops -= part.profile.exit_keeps_ttl if leaves else part.profile.tunnel_keeps_ttl
    return hops


def combine_policies(
    parts: tuple[ChainPart, ...], last: Mapping[Direction, HeaderProfile]
) -> HeaderPolicy:
    """Return the combined effect of the parts on UDP checksums and DF, as seen behind the last part."""
    profiles = [part.profile for part in parts]
    zero = next(
        value for value in _ZERO_CHECKSUM_VALUES if any(p.zero_checksum == value for p in profiles)
    )
    either = [way for way, own in last.items() if own.dont_fragment == "either"]
    return HeaderPolicy(
        absent_checksum=any(p.absent_checksum for p in profiles),
        zero_checksum=zero,
        dont_fragment="either" if len(either) > 1 else either[0] if either else "exact",
    )


def get_last_translator_profile(
    parts: tuple[ChainPart, ...], direction: Direction
) -> HeaderProfile:
    """Return the profile of a direction's last translator to IPv4, else the reference's."""
    from_its_end = parts if direction == "reverse" else parts[::-1]
    return next((p.profile for p in from_its_end if p.to_ipv4 == direction), HeaderProfile())


def choose_state_directory(earlier_parts: Sequence[ChainPart], name: str, driver: Driver) -> str:
    """Return the state directory of a part that shares a machine; empty: the directory in its options.

    The first part of a machine has the directory itself, and with it the machine's lock. Timer, record and
    files are each part's own.
    """
    if not driver.configures_device or driver.options.ssh is None:
        return ""
    ssh, directory = driver.options.ssh, driver.options.state_dir
    neighbors_on_machine = [
        p for p in _find_remote_parts(earlier_parts) if p.driver.options.ssh.machine == ssh.machine
    ]
    for part in neighbors_on_machine:
        same = part.driver.options.ssh.netns == ssh.netns
        # whether the user's own lines are the kernel's is unknown
        if same and all(
            d.uses_kernel_routes and DeviceConfig not in d.supported_configurations
            for d in (part.driver, driver)
        ):
            raise UsageError(
                f"the parts {part.name} and {name} would both be the kernel of one machine, "
                f"{ssh.text}: what leaves the one never enters the other",
                "give one of them a network namespace on it, with the interfaces of its two cables: "
                f"`ip netns add {name}` there, and dut.options.parts.{name}.options.ssh.netns: {name}",
                code="chain-conflict",
            )
    used_directories = {part.driver.options.state_dir for part in neighbors_on_machine}
    return f"{directory}/{PART_PREFIX}{name}" if directory in used_directories else ""


def check_lab_placement(parts: Sequence[ChainPart]) -> None:
    """Check that each part can be cabled in the lab."""
    part_names: dict[tuple[str, str], str] = {}
    for part in _find_remote_parts(parts):
        ssh = part.driver.options.ssh
        earlier_part = part_names.setdefault((ssh.lab, ssh.netns), part.name)
        if earlier_part != part.name:
            problem = (
                f"the parts {earlier_part} and {part.name} share a namespace of the lab, {ssh.lab}"
            )
            hint = f"give one dut.options.parts.{part.name}.options.ssh.netns, or another ssh.lab"
            raise UsageError(problem, hint, code="chain-conflict")


def _find_remote_parts(parts: Iterable[ChainPart]) -> list[ChainPart]:
    return [p for p in parts if p.driver.configures_device and p.driver.options.ssh is not None]
