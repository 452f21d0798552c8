"""A device under test of several parts one after the other, each with a driver of its own.

The dual-DUT setup of RFC 8219 section 4.2, and devices whose implementation is made of two. The
intent says which parts there are; ``dut.options.parts`` may give each another driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.chain.machines import check_places, directory_beside
from v6t.drivers.duts.chain.oracle import ChainOracle
from v6t.drivers.duts.chain.parts import Part, further_hops, hops_on_way, last_to_ipv4, policy_of
from v6t.drivers.duts.chain.session import ChainSession, Driven
from v6t.drivers.duts.chain.standing import LabChain, LabPart
from v6t.drivers.duts.commands import PartOf
from v6t.drivers.duts.driver import DeviceTechnology, Driver, WithoutCommands, over_ssh
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import DutOptions, reached
from v6t.drivers.duts.plan import Intent, Plan, Step
from v6t.drivers.duts.registry import driver_type, make_driver
from v6t.drivers.duts.session import Session, restore_command
from v6t.drivers.duts.standing.device import LabDut
from v6t.drivers.lab.setup import LabDevice, ReferenceDevice, frame_octets
from v6t.drivers.tester import Oracle
from v6t.intent.device import DutIntent, Link, Links
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.header_policy import HeaderPolicy

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Reach
    from v6t.drivers.transport.ssh_options import SshOptions


class PartOptions(StrictModel):
    """Which driver a part has."""

    driver: str = ""
    """Empty: the technology's own choice."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of that driver."""


class ChainOptions(DutOptions):
    """Drivers by part; everything else is said there."""

    parts: dict[str, PartOptions] = Field(default_factory=dict)


class Chain(WithoutCommands):
    """Combines the drivers of the parts; it has no commands of its own."""

    name = "chain"
    title = "several parts one after the other, each with its own driver"
    technologies = ("ipv4aas", "dslite-aftr", "nat46")
    executed = "as its parts' drivers are"
    options_model = ChainOptions
    of_parts = True

    def parts(self, intent: Intent) -> tuple[Part, ...]:
        """The parts from left to right.

        Raises:
            UsageError: the options name a part there is not, or a driver that cannot be it.
        """
        listed = self._listed(intent)
        names = [part["name"] for part in listed]
        for name in self.options.parts:
            if name not in names:
                instead = "".join(
                    f"; {whole['name']} in place of {' and '.join(whole['covers'])}"
                    for whole in intent.settings.get("wholes", ())
                    if whole["name"] not in names
                )
                raise UsageError(
                    f"unknown part '{name}' of the chain",
                    "parts: " + ", ".join(names) + instead,
                    code="unknown-name",
                )
        parts: list[Part] = []
        for entry in listed:
            driver = self._driver(entry, parts, turned=intent.links.turned)
            try:
                driver.check_technology(entry["technology"])
            except UsageError as exc:  # another driver is the part's remedy, not the whole device's
                raise UsageError(exc.message, exc.hint, code=exc.code) from exc
            parts.append(
                Part(
                    entry["name"],
                    entry["device"],
                    entry["stateful"],
                    _intent(entry, intent.settings.get("sessions"), turned=intent.links.turned),
                    driver,
                    entry["to_ipv4"],
                )
            )
        return tuple(parts)

    def _listed(self, intent: Intent) -> list[Mapping[str, Any]]:
        """The parts as the intent says them; a device that is several of them stands in their place."""
        listed: list[Mapping[str, Any]] = list(intent.settings["parts"])
        for whole in intent.settings.get("wholes", ()):
            if whole["name"] in self.options.parts:
                at = [part["name"] for part in listed].index(whole["covers"][0])
                listed[at : at + len(whole["covers"])] = [whole]
        return listed

    def _driver(self, entry: Mapping[str, Any], before: Sequence[Part], *, turned: bool) -> Driver:
        """Of one part; where another is on its machine, it has a directory of its own there."""
        chosen = self.options.parts.get(entry["name"], PartOptions())
        name = chosen.driver or entry["driver"]
        if name == self.name:
            raise UsageError(
                "a chain cannot be part of a chain",
                "name the driver of one device",
                code="chain-conflict",
            )
        if not driver_type(name).configures and not entry["reference"]:
            raise UsageError(
                f"no reference translation exists for the part '{entry['name']}'",
                "it keeps connections: leave out its driver, or name another",
                code="missing-reference",
            )
        if not driver_type(name).configures and chosen.options:
            raise UsageError(
                f"the reference translation of '{entry['name']}' has no options",
                code="invalid-intent",
            )
        own = entry["options"] if name == entry["driver"] else {}
        options = {**own, **chosen.options}
        driver = make_driver(name, options, turned=turned)
        directory = directory_beside(before, entry["name"], driver)
        if directory:
            driver = make_driver(name, {**options, "state_dir": directory}, turned=turned)
        driver.part = PartOf(entry["name"], entry.get("params", {}))
        return driver

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """The plans of all parts, to be shown; each is carried out on its own part."""
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
        """Hops of all parts beyond one for each device."""
        hops = further_hops(self.parts(intent))
        words = f"{hops} hops beyond one for each device" if hops else ""
        return ExpectProfile(further_hops=hops, why=words)

    def further_hops(self, intent: Intent, direction: Direction) -> int:
        """Those of all parts: some ends of tunnels decrement no TTL."""
        return hops_on_way(self.parts(intent), direction)

    def timeout_s(self, intent: Intent) -> float | None:
        """The shortest of the parts that keep connections (DD-05)."""
        timeouts = [p.driver.timeout_s(p.intent) for p in self.parts(intent) if p.stateful]
        return min((limit for limit in timeouts if limit is not None), default=None)

    def check_intent(self, intent: Intent) -> None:
        """The parts, too."""
        super().check_intent(intent)
        self.parts(intent)

    def oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        """The plugin's reference translation as these parts do it."""
        parts = self.parts(intent)
        last = {way: last_to_ipv4(parts, way) for way in DIRECTIONS}
        hops = {way: hops_on_way(parts, way) for way in DIRECTIONS}
        df = {way: profile.df for way, profile in last.items()}
        policy = policy_of(parts, last)
        plain = not any(hops.values()) and set(df.values()) == {"reference"}
        if plain and policy == HeaderPolicy():
            return oracle
        return ChainOracle(oracle, hops, df, policy)

    def session(
        self,
        intent: Intent,
        keep: Path | None = None,
        again: str = "",
        reach: Reach = over_ssh,
    ) -> ChainSession | None:
        """Sessions with all parts elsewhere; of those in the lab, with what stands without its tester."""
        again = again or restore_command(keep)
        ways = [
            (p, p.driver.options.ssh if p.driver.configures else None) for p in self.parts(intent)
        ]
        in_lab = any(ssh is not None and ssh.lab for _, ssh in ways)
        driven = []
        for part, own_transport in ways:
            if own_transport is None and in_lab:
                continue
            ssh = reached(
                own_transport,
                f"the part '{part.name}' of the {part.device}",
                f"dut.options.parts.{part.name}.driver and its options.ssh.host",
            )
            transport = reach(ssh)
            if transport is not None:
                part_keep = _part_directory(keep, part)
                session = Session(part.driver, transport, part.intent, part_keep, again, part.name)
                driven.append(Driven(part, session))
        return ChainSession(self.name, driven) if driven else None

    def logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        """Of every part that is configured."""
        return [p.driver.options.ssh for p in self.parts(intent) if p.driver.configures]

    def lab_device(
        self,
        translation: DeviceTechnology,
        intent: Intent,
        keep: Path | None = None,
    ) -> LabChain:
        """All parts in namespaces of the lab."""
        known = {part.name: part for part in translation.parts}
        lab_parts = []
        check_places(self.parts(intent))
        for part in self.parts(intent):
            if part.driver.configures:
                device: LabDevice = LabDut(
                    part.driver, part.intent, _part_directory(keep, part), part.name
                )
            else:
                own = known[part.name]
                octets = frame_octets(part.intent.links)
                turned = own.turned != intent.links.turned
                device = ReferenceDevice(own.reference, octets, turned=turned)
            lab_parts.append(LabPart(part, device))
        return LabChain(self.name, lab_parts, turned=intent.links.turned)


def _part_directory(keep: Path | None, part: Part) -> Path | None:
    return None if keep is None else keep / part.name


def _intent(entry: Mapping[str, Any], sessions: int | None, *, turned: bool) -> DutIntent:
    settings = dict(entry["settings"])
    if entry["stateful"] and sessions:
        settings["sessions"] = sessions
    left, right = (Link(**entry["links"][side]) for side in ("left", "right"))
    links = Links(left, right, turned)
    return DutIntent(entry["technology"], settings, links, entry["left"], entry["right"])
