"""What a driver knows of its device: commands and how to read answers. It never runs anything."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from pydantic import BaseModel
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Change, Check, Intent, Plan, Step
from v6t.drivers.duts.way import check_way
from v6t.drivers.options import options_of
from v6t.drivers.transport.contract import Transport
from v6t.drivers.transport.redaction import add_secrets_of
from v6t.intent.device import Port
from v6t.intent.families import DeviceConfig


class Lost(str, Enum):
    """What a counter of lost frames says of why they were lost."""

    QUEUE = "queue"
    """A queue was full, or it does not say: they came faster than they were taken."""
    INGRESS = "ingress"
    """So were they, where frames wait for the device itself to fetch them."""
    ROOM = "room"
    """A table had no room for their connection, or a NAT no port."""
    ENTRY = "entry"
    """Their connection was not entered: no port was free for it, or two frames began it at once."""
    UNKNOWN = "no connection"
    """Of a connection that the device does not know, as of one that it had no room for."""
    RULE = "rule"
    """By what the device was told, or cannot translate: at any rate."""
    ALL = "all"
    """Whatever the reason: other figures count the same frames by theirs."""


@dataclass(frozen=True)
class Reading:
    """One figure the device can be asked for while it works.

    Attributes:
        command: prints it; must be cheap.
        parse: the figures in its output, by name.
        means: what the figures are, for the documentation.
        losses: which of the figures count lost frames: patterns of their whole names, the first that fits
            holds. What none fits counts something else.
        polls: the time of one that looks for frames without end: it is spent without load, too.
        lasts_s: the command takes so long by itself [s].
    """

    command: str
    parse: Callable[[str], Mapping[str, float]]
    means: str = ""
    losses: Mapping[str, Lost] = field(default_factory=dict)
    polls: bool = False
    lasts_s: float = 0.0

    def lost(self, figure: str) -> Lost | None:
        """What a figure says of lost frames; None: it counts none."""
        return next((why for name, why in self.losses.items() if re.fullmatch(name, figure)), None)


@dataclass(frozen=True)
class Suited:
    """A parameter as a device can take it, where the technology's own default is not for it.

    Attributes:
        value: used where the user gives none.
        why: what the device does with the technology's default.
    """

    value: Any
    why: str


@dataclass(frozen=True)
class PartOf:
    """What a driver is a part of, as far as messages need it.

    Attributes:
        name: of the part.
        params: what the chain's technology calls the parameters of the part's own.
    """

    name: str
    params: Mapping[str, str]

    def retold(self, exc: UsageError) -> UsageError:
        """An error of the part, with parameters that the user can give to the chain."""
        params = {
            self.params[name]: value for name, value in exc.params.items() if name in self.params
        }
        return UsageError(
            f"{self.name}: {exc.message}",
            exc.hint,
            params=params if len(params) == len(exc.params) else {},
            dut_params={f"parts.{self.name}.options.{n}": v for n, v in exc.dut_params.items()},
            code=exc.code,
        )


class Commands(ABC):
    """One implementation. Instances hold options only."""

    name: ClassVar[str]
    noun: ClassVar[str] = "driver"
    """What follows the name in messages."""
    title: ClassVar[str]
    accepts: ClassVar[tuple[type[DeviceConfig], ...]]
    """Configurations that it can make a device of; ``DeviceConfig`` itself: any."""
    executed: ClassVar[str]
    """What of it was run with real frames, for the documentation and ``v6t dut plan``."""
    versions: ClassVar[tuple[str, ...]] = ("",)
    """Versions whose commands differ, oldest first; the last is planned for by default."""
    options_model: ClassVar[type[BaseModel]] = DutOptions
    kernel: ClassVar[bool] = True
    """Whether its routes and addresses are the system's own, which carry the connection, too."""
    options: Any
    part: PartOf | None = None
    """Of a chain; None: it is the whole device."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        """Validate options.

        Args:
            given: of the testbed file and ``--set-dut``.

        Raises:
            UsageError: naming the option.
        """
        self.options = options_of(self.options_model, self.name, self.noun, given or {})
        add_secrets_of(self.options.model_dump())

    @property
    def prelude(self) -> str:
        """Shell lines that its commands take for granted; they stand in ``undo.sh``, too."""
        return ""

    def carried(self, transport: Transport) -> Transport:
        """What carries its commands, given the way to its machine: that itself, or something on top of it."""
        return transport

    @abstractmethod
    def survey(self) -> Mapping[str, str]:
        """Commands that change nothing, by section; ``version`` is one of them."""

    @abstractmethod
    def facts(self, sections: Mapping[str, str]) -> Facts:
        """What they said.

        Raises:
            DutError: a program is missing, or the device is another one.
        """

    @abstractmethod
    def example(self, intent: Intent) -> Facts:
        """A device as it would be if there was one, for plans without a device."""

    @abstractmethod
    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """The plan, after :meth:`refuse`."""

    def refuse(self, intent: Intent, facts: Facts) -> None:  # noqa: B027  (most refuse nothing)
        """Refuse what this implementation cannot do, or does silently wrong.

        Raises:
            UsageError: with the nearest thing that works.
            DutError: the device is not in a state to be used.
        """

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """Parameters of a technology whose defaults this implementation cannot take."""
        return {}

    def profile(self, intent: Intent) -> ExpectProfile:
        """How its frames differ from the reference translation."""
        return ExpectProfile()

    def sessions(self, intent: Intent) -> Reading | None:
        """Number of its sessions, as ``sessions``; None if it has no state."""
        return None

    def by_endpoint(self, intent: Intent) -> bool:
        """Whether each of its sessions is that of an address and port inside, whatever they talk to."""
        return False

    def table(self, intent: Intent) -> Reading | None:
        """What limits its table of sessions (sizes, timeouts), by the device's own names."""
        return None

    def timeout_s(self, intent: Intent) -> float | None:
        """Idle connections live so long [s]; None: for ever, or unknown."""
        return None

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """What to watch under load, by name."""
        return {}

    def plan(self, intent: Intent, facts: Facts) -> Plan:
        """What to do to this device.

        Raises:
            UsageError: the implementation cannot be this technology, or not with these parameters.
            DutError: the device is not in a state to be used.
        """
        try:
            return self._plan(intent, facts)
        except UsageError as exc:
            if self.part is None:
                raise
            raise self.part.retold(exc) from exc

    def _plan(self, intent: Intent, facts: Facts) -> Plan:
        self.check_supported(intent, in_chain=self.part is not None)
        self.refuse(intent, facts)
        plan = self.steps(intent, facts)
        required = intent.requirements
        if required.filters:
            plan = self._filtered(intent, facts, required.filters, plan)
        if required.snmp_agent:
            plan = self._answering(intent, facts, plan)
        if required.route_updates:
            plan = self._updated(intent, facts, plan, spoken=required.bgp_speaker)
        if required.live_change:
            plan = self._reconfigured(intent, facts, plan)
        ssh = self.options.ssh
        # the session is in the machine's own namespace: nothing in another one takes its way
        if ssh is not None and not ssh.netns and facts.way is not None:
            check_way(facts.way if self.kernel else replace(facts.way, peers=()), intent, plan)
        return plan

    def beside(self, intent: Intent, facts: Facts) -> Change | None:
        """What can be added, changed and removed under traffic that has nothing to do with it.

        None: nothing of this device, or not for this technology.
        """
        return None

    def updates(self, intent: Intent, facts: Facts) -> Change | None:
        """A route that no test packet takes and that updates move to and fro; None: none can be."""
        return None

    def filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        """Return the filters of what is forwarded (RFC 2544, section 11.4); none: it has no filters."""
        return ()

    def agent(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Check] | None:
        """An SNMP agent, and what it is asked; None: it has none."""
        return None

    def _answering(self, intent: Intent, facts: Facts, plan: Plan) -> Plan:
        agent = self.agent(intent, facts)
        if agent is None:
            raise UsageError(
                f"the {self.name} driver does not start an SNMP agent",
                "use the modifier management, which reads over the driver's connection",
                code="unsupported-operation",
            )
        steps, query = agent
        return replace(plan, steps=(*plan.steps, *steps), asked=query)

    def speaker(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Change] | None:
        """A BGP speaker and the route that it moves; see :meth:`updates`; None: there is none."""
        return None

    def _updated(self, intent: Intent, facts: Facts, plan: Plan, *, spoken: bool) -> Plan:
        steps: Sequence[Step] = ()
        if spoken:
            steps, change = self.speaker(intent, facts) or ((), None)
        else:
            change = self.updates(intent, facts)
        if change is None:
            how = " by BGP" if spoken else ""
            raise UsageError(
                f"the {self.name} driver does not change routes under traffic{how}",
                "leave the modifier out, or choose another driver",
                code="unsupported-operation",
            )
        return replace(plan, steps=(*plan.steps, *steps, change.kept), updates=change)

    def _filtered(self, intent: Intent, facts: Facts, count: int, plan: Plan) -> Plan:
        steps = self.filters(intent, facts, count)
        if not steps:
            raise UsageError(
                f"the {self.name} driver does not create filters for {intent.technology}",
                "leave the modifier out, or choose another driver",
                code="unsupported-operation",
            )
        return replace(plan, steps=(*plan.steps, *steps))

    def _reconfigured(self, intent: Intent, facts: Facts, plan: Plan) -> Plan:
        change = self.beside(intent, facts)
        if change is None:
            raise UsageError(
                f"the {self.name} driver has nothing of {intent.technology} that it could change "
                "under traffic",
                "leave reconfiguration out of --measure, or choose another driver",
                code="unsupported-operation",
            )
        return replace(plan, steps=(*plan.steps, change.kept), beside=change)

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        """Refuse a device that no version of this implementation can be, whatever its options.

        Args:
            intent: what the device must be.
            in_chain: whether it is a part of a chain.

        Raises:
            UsageError: with the configurations that it accepts.
        """
        if not isinstance(intent.configuration, cls.accepts):
            raise cls.make_refusal(intent)

    @classmethod
    def make_refusal(cls, intent: Intent, hint: str = "") -> UsageError:
        """Return the error for a device that this implementation cannot be.

        Args:
            intent: what the device must be.
            hint: what to do instead; empty: the configurations that it accepts.
        """
        return UsageError(
            f"the {cls.name} driver cannot make a device for {intent.technology}",
            hint or f"it can be: {', '.join(kind.family for kind in cls.accepts)}",
            technology=intent.technology,
            code="unsupported-technology",
        )


def check_interfaces(options: DutOptions, intent: Intent, facts: Facts) -> None:
    """Management is never touched, and the cables are where they should be.

    Raises:
        DutError: saying what was seen.
    """
    untouchable = facts.untouchable()
    sides: tuple[Port, Port] = ("left", "right")
    for own in sides:
        name = getattr(options, own)
        wanted = getattr(intent.links, own).dut_mac.lower()
        side = intent.links.port_of(own)  # as the testbed file calls it
        if name in untouchable:
            raise DutError(
                f"the {side} interface {name} is not touched: {untouchable[name]}",
                f"name another one with dut.options.{side}",
                code="interface-protected",
            )
        interface = facts.interfaces.get(name)
        if interface is None:
            known = ", ".join(sorted(facts.interfaces))
            near = [n for n, i in facts.interfaces.items() if i.mac == wanted]
            raise DutError(
                f"the device has no interface {name} (dut.options.{side}); it has {known}",
                f"{near[0]} has the MAC address {wanted}" if near else "",
                code="unknown-interface",
            )
        if interface.mac != wanted:
            raise DutError(
                f"the {side} interface {name} has the MAC address {interface.mac}, not {wanted}",
                f"set links.{side}.dut_mac in the testbed file, or name another interface",
                code="wrong-interface",
            )
        if interface.up and not interface.carrier:
            raise DutError(
                f"the {side} interface {name} has no carrier",
                "is the cable plugged in?",
                code="no-carrier",
            )
