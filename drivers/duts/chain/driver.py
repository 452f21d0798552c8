"""A device under test of several parts one after the other, each with a driver of its own.

The dual-DUT setup of RFC 8219 section 4.2, and devices whose implementation is made of two. The
intent says which parts there are; ``dut.options.parts`` may give each another driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.drivers.tester import Oracle
from v6t.profiles.errors import UsageError
from v6t.profiles.model import Direction

REFERENCE = "reference"


@dataclass(frozen=True)
class PartLink:
    """See :class:`v6t.drivers.duts.plan.LinkLike`."""

    tester_mac: str
    dut_mac: str
    vlan: int | None = None
    mtu: int = 1500


@dataclass(frozen=True)
class PartLinks:
    """See :class:`v6t.drivers.duts.plan.LinksLike`."""

    left: PartLink
    right: PartLink


@dataclass(frozen=True)
class PartIntent:
    """What one part must be; see :class:`v6t.drivers.duts.plan.Intent`."""

    technology: str
    settings: Mapping[str, Any]
    links: PartLinks
    left: Mapping[str, Any]
    right: Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        name: of the part.
        device: of the device it belongs to, for example ``CE``.
        stateful: whether it keeps the connections.
        intent: what it must be.
        driver: None for the reference translation.
        to_ipv4: direction in which it translates IPv6 to IPv4; None: in neither.
    """

    name: str
    device: str
    stateful: bool
    intent: PartIntent
    driver: Driver | None
    to_ipv4: Direction | None = None


class PartOptions(BaseModel):
    """Which driver a part has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    driver: str = ""
    """Empty: the technology's own choice."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of that driver."""


class ChainOptions(DutOptions):
    """Drivers by part; everything else is said there."""

    parts: dict[str, PartOptions] = Field(default_factory=dict)


class Chain(Driver):
    """Combines the drivers of the parts; it has no commands of its own."""

    name = "chain"
    title = "several parts one after the other, each with its own driver"
    technologies = ("ipv4aas", "dslite-aftr", "nat46")
    executed = "as its parts' drivers are"
    options_model = ChainOptions

    def parts(self, intent: Intent) -> tuple[Part, ...]:
        """The parts from left to right.

        Raises:
            UsageError: the options name a part there is not, or a driver that cannot be it.
        """
        from v6t.drivers.duts.registry import make_driver

        listed = intent.settings["parts"]
        names = [part["name"] for part in listed]
        for name in self.options.parts:
            if name not in names:
                raise UsageError(
                    f"there is no part '{name}' in this chain", "parts: " + ", ".join(names)
                )
        found = []
        for given in listed:
            chosen = self.options.parts.get(given["name"], PartOptions())
            name = chosen.driver or given["driver"]
            driver = None
            if name == self.name:
                raise UsageError("a part of a chain is no chain", "name the driver of one device")
            if name != REFERENCE:
                own = given["options"] if name == given["driver"] else {}
                driver = make_driver(name, {**own, **chosen.options})
                driver.check_technology(given["technology"])
            elif not given["reference"]:
                raise UsageError(
                    f"there is no reference translation for the part '{given['name']}'",
                    "it keeps connections: leave out its driver, or name another",
                )
            elif chosen.options:
                raise UsageError(f"the reference translation of '{given['name']}' has no options")
            found.append(
                Part(
                    given["name"],
                    given["device"],
                    given["stateful"],
                    _intent(given, intent.settings.get("sessions")),
                    driver,
                    given["to_ipv4"],
                )
            )
        return tuple(found)

    def survey(self) -> Mapping[str, str]:
        """Nothing: each part is surveyed by its own driver."""
        return {}

    def facts(self, sections: Mapping[str, str]) -> Facts:
        """None of its own."""
        del sections
        return Facts(system="", version="")

    def example(self, intent: Intent) -> Facts:
        """See the base class."""
        del intent
        return Facts(system="", version="")

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """The plans of all parts, to be shown; each is carried out on its own part."""
        del facts
        steps: list[Step] = []
        flush: list[Step] = []
        notes: list[str] = []
        for part in self.parts(intent):
            if part.driver is None:
                notes.append(f"{part.name}: the reference translation; nothing to configure")
                continue
            plan = part.driver.plan(part.intent, part.driver.example(part.intent))
            steps += [replace(s, why=f"{part.name}: {s.why}") for s in plan.steps]
            flush += [replace(s, why=f"{part.name}: {s.why}") for s in plan.flush]
            notes += [f"{part.name} ({part.driver.title}): {note}" for note in plan.notes]
        return Plan(self.name, "", tuple(steps), tuple(flush), notes=tuple(notes))

    def profile(self, intent: Intent) -> ExpectProfile:
        """Hops of all parts beyond one for each device."""
        hops = _hops(self.parts(intent))
        words = f"{hops} hops beyond one for each device" if hops else ""
        return ExpectProfile(further_hops=hops, why=words)

    def oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        """The plugin's reference translation as these parts do it."""
        from v6t.drivers.duts.chain.oracle import ChainOracle

        parts = self.parts(intent)
        df = {"forward": _df(parts, "forward"), "reverse": _df(parts[::-1], "reverse")}
        hops = _hops(parts)
        plain = not hops and set(df.values()) == {"reference"}
        return oracle if plain else ChainOracle(oracle, hops, df)


def _hops(parts: tuple[Part, ...]) -> int:
    """Hops inside the chain beyond one for each device."""
    devices = len({part.device for part in parts})
    taken = sum(
        1 + (part.driver.profile(part.intent).further_hops if part.driver else 0) for part in parts
    )
    return taken - devices


def _df(parts: tuple[Part, ...], direction: str) -> str:
    """Don't Fragment after the last translator from IPv6 to IPv4 on the way."""
    said = "reference"
    for part in parts:
        if part.to_ipv4 == direction:
            said = part.driver.profile(part.intent).df if part.driver else "reference"
    return said


def _intent(given: Mapping[str, Any], sessions: int | None) -> PartIntent:
    settings = dict(given["settings"])
    if given["stateful"] and sessions:
        settings["sessions"] = sessions
    links = PartLinks(PartLink(**given["links"]["left"]), PartLink(**given["links"]["right"]))
    return PartIntent(given["technology"], settings, links, given["left"], given["right"])
