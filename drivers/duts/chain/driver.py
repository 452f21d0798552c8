"""A device under test of several parts one after the other, each with a driver of its own.

The dual-DUT setup of RFC 8219 section 4.2, and devices whose implementation is made of two. The
intent says which parts there are; ``dut.options.parts`` may give each another driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.chain.machines import directory_beside
from v6t.drivers.duts.chain.oracle import ChainOracle
from v6t.drivers.duts.chain.parts import Part, further_hops, hops_on_way, last_to_ipv4, policy_of
from v6t.drivers.duts.driver import Driver, PartOf, WithoutCommands
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.drivers.duts.registry import driver_type, make_driver
from v6t.drivers.tester import Oracle
from v6t.intent.device import DeviceIntent, DeviceRequirements, PartIntent
from v6t.intent.families import DeviceConfig
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.header_policy import HeaderPolicy

if TYPE_CHECKING:
    from v6t.drivers.transport.ssh_options import SshOptions


class PartOptions(StrictModel):
    """The driver of a part."""

    driver: str = ""
    """Empty: the technology's own choice."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of that driver."""


class ChainOptions(DutOptions):
    """Options of a chain: the drivers of its parts."""

    parts: dict[str, PartOptions] = Field(default_factory=dict)


class Chain(WithoutCommands):
    """Combines the drivers of the parts; it has no commands of its own."""

    name = "chain"
    title = "several parts one after the other, each with its own driver"
    accepts = (DeviceConfig,)
    executed = "as its parts' drivers are"
    options_model = ChainOptions
    of_parts = True

    def parts(self, intent: Intent) -> tuple[Part, ...]:
        """Return the parts from left to right.

        Raises:
            UsageError: the options name a part there is not, or a driver that cannot be it.
        """
        chosen = self._chosen_parts(intent)
        names = [part.name for part in chosen]
        for name in self.options.parts:
            if name not in names:
                instead = "".join(
                    f"; {part.name} in place of {' and '.join(part.replaces)}"
                    for part in intent.alternatives
                    if part.name not in names
                )
                raise UsageError(
                    f"unknown part '{name}' of the chain",
                    "parts: " + ", ".join(names) + instead,
                    code="unknown-name",
                )
        parts: list[Part] = []
        for part in chosen:
            driver = self._driver(part, parts, swapped=intent.links.swapped)
            try:
                driver.check_supported(part.intent, in_chain=True)
            except UsageError as exc:  # another driver is the part's remedy, not the whole device's
                raise UsageError(exc.message, exc.hint, code=exc.code) from exc
            parts.append(
                Part(
                    part.name,
                    part.device,
                    part.stateful,
                    _part_of(intent, part),
                    driver,
                    part.to_ipv4,
                )
            )
        return tuple(parts)

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        if not intent.parts:
            raise cls.make_refusal(intent, "name the driver of one device")

    def _chosen_parts(self, intent: Intent) -> list[PartIntent]:
        """Return the parts, with the alternatives that the options name in place of others."""
        parts = list(intent.parts)
        for part in intent.alternatives:
            if part.name in self.options.parts:
                at = [each.name for each in parts].index(part.replaces[0])
                parts[at : at + len(part.replaces)] = [part]
        return parts

    def _driver(self, part: PartIntent, before: Sequence[Part], *, swapped: bool) -> Driver:
        """Make the driver of one part, with its own directory where it shares a machine."""
        chosen = self.options.parts.get(part.name, PartOptions())
        name = chosen.driver or part.driver
        if name == self.name:
            raise UsageError(
                "a chain cannot be part of a chain",
                "name the driver of one device",
                code="chain-conflict",
            )
        if not driver_type(name).configures and not part.has_reference:
            raise UsageError(
                f"no reference translation exists for the part '{part.name}'",
                "it keeps connections: leave out its driver, or name another",
                code="missing-reference",
            )
        if not driver_type(name).configures and chosen.options:
            raise UsageError(
                f"the reference translation of '{part.name}' has no options",
                code="invalid-intent",
            )
        own = part.options if name == part.driver else {}
        options = {**own, **chosen.options}
        driver = make_driver(name, options, swapped=swapped)
        directory = directory_beside(before, part.name, driver)
        if directory:
            driver = make_driver(name, {**options, "state_dir": directory}, swapped=swapped)
        driver.part = PartOf(part.name, part.params)
        return driver

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """Return the plans of all parts, for the printed plan."""
        steps: list[Step] = []
        flush: list[Step] = []
        notes: list[str] = []
        for part in self.parts(intent):
            if not part.driver.configures:
                notes.append(f"{part.name}: the reference translation; nothing to configure")
                continue
            plan = part.driver.plan(part.intent, part.driver.example(part.intent))
            steps += [replace(s, why=f"{part.name}: {s.why}") for s in plan.steps]
            flush += [replace(s, why=f"{part.name}: {s.why}") for s in plan.flush]
            notes += [f"{part.name} ({part.driver.title}): {note}" for note in plan.notes]
        return Plan(self.name, "", tuple(steps), tuple(flush), notes=tuple(notes))

    def profile(self, intent: Intent) -> ExpectProfile:
        """Return the hops of all parts beyond one for each device."""
        hops = further_hops(self.parts(intent))
        words = f"{hops} hops beyond one for each device" if hops else ""
        return ExpectProfile(further_hops=hops, why=words)

    def further_hops(self, intent: Intent, direction: Direction) -> int:
        return hops_on_way(self.parts(intent), direction)

    def timeout_s(self, intent: Intent) -> float | None:
        """Return the shortest timeout of the stateful parts (DD-05)."""
        timeouts = [p.driver.timeout_s(p.intent) for p in self.parts(intent) if p.stateful]
        return min((limit for limit in timeouts if limit is not None), default=None)

    def check_intent(self, intent: Intent) -> None:
        super().check_intent(intent)
        self.parts(intent)

    def oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        parts = self.parts(intent)
        last = {way: last_to_ipv4(parts, way) for way in DIRECTIONS}
        hops = {way: hops_on_way(parts, way) for way in DIRECTIONS}
        df = {way: profile.df for way, profile in last.items()}
        policy = policy_of(parts, last)
        plain = not any(hops.values()) and set(df.values()) == {"reference"}
        if plain and policy == HeaderPolicy():
            return oracle
        return ChainOracle(oracle, hops, df, policy)

    def logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        return [p.driver.options.ssh for p in self.parts(intent) if p.driver.configures]


def _part_of(chain: Intent, part: PartIntent) -> DeviceIntent:
    """Return a part's intent with the chain's direction, and its sessions where it keeps them."""
    intent = part.intent
    sessions = chain.requirements.sessions if part.stateful else 0
    return replace(
        intent,
        links=replace(intent.links, swapped=chain.links.swapped),
        requirements=DeviceRequirements(sessions=sessions),
    )
