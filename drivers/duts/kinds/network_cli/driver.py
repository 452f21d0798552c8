"""Any device with a command line of its own: the user's lines, typed over SSH, and read back."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.console.alone import prelude
from v6t.drivers.duts.console.manners import Manners
from v6t.drivers.duts.console.transport import ConsoleTransport
from v6t.drivers.duts.driver import DeviceTechnology, Driver, Reading
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.command import CRITERIA
from v6t.drivers.duts.kinds.network_cli.options import LineCheck, NetworkCliOptions, WatchText
from v6t.drivers.duts.kinds.network_cli.places import Places, places_of
from v6t.drivers.duts.kinds.network_cli.platform import definition, manners_in
from v6t.drivers.duts.kinds.network_cli.readings import (
    DROPS,
    LOSSES,
    figures,
    first_number,
    reading_of,
)
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, shown
from v6t.drivers.duts.undo_record import PROGRESS, UNDONE
from v6t.drivers.duts.way import Peer, Way
from v6t.drivers.options import options_of
from v6t.drivers.transport.contract import Transport
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.families import DeviceConfig

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import LabDevice

PAGE = "docs/duts/network-cli.md"
LONGEST_S = 3600.0
UNANSWERED = "v6t: it was refused"
SYSTEM_STATE, OWN_STATE = Path("/var/lib/v6t"), Path("~/.local/state/v6t")


class NetworkCli(Driver):
    """Commands are this machine's shell's; in them ``box`` has lines typed at the device."""

    name = "network-cli"
    title = "any device with a command line: your own lines, typed over SSH"
    accepts = (DeviceConfig,)
    executed = (
        "over a real sshd with two command lines made for the tests, one like IOS and one like Junos, which "
        "configure a Linux router: verified, measured, flushed and restored with real frames as "
        "ipv6-router; no vendor's device"
    )
    options_model = NetworkCliOptions

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        if not self.options.state_dir:
            self.options = self.options.model_copy(update={"state_dir": self._state_dir()})

    @cached_property
    def manners(self) -> Manners:
        """How the device's command line behaves: what is given, then the platform's, then what is common."""
        own: Manners = self.options.cli
        if not self.options.platform:
            return own
        known = manners_in(definition(self.options.platform))
        given = {**known, **own.model_dump(exclude_unset=True)}
        return options_of(Manners, self.options.platform, "platform", given)

    @property
    def prelude(self) -> str:
        """What ``box`` is."""
        return prelude(self._reached(), self.manners)

    def carried(self, transport: Transport) -> Transport:
        """Return this machine's shell, with a login at the device.

        Raises:
            UsageError: the way is none over SSH.
        """
        if not isinstance(transport, SshTransport):
            raise UsageError(
                "the lab does not contain a device with a vendor command line",
                "give dut.options.ssh.host, and a tester whose cables lead to it",
                code="unsupported-by-device",
            )
        return ConsoleTransport(transport, self.manners, self.prelude)

    def lab_device(
        self,
        translation: DeviceTechnology,
        intent: Intent,
        keep: Path | None = None,
    ) -> LabDevice:
        """One that stands in the lab already, with an sshd that starts its command line.

        Raises:
            UsageError: nothing says which.
        """
        self._reached()
        from v6t.drivers.duts.kinds.network_cli.lab import LabBox

        return LabBox(self, intent, keep)

    def timeout_s(self, intent: Intent) -> float | None:
        return float(self.options.timeout_s) or None

    def survey(self) -> Mapping[str, str]:
        """Its version, who is at work on it, and where the connection comes from."""
        line, busy = self.options.version_command, self.options.busy
        return {
            "boot": "true",  # no start of it takes a configuration away that was saved meanwhile
            "user": "true",  # nor has this user to be root
            "version": box(line) if line else "true",
            "ends": "box --ends",
            **({"busy": f"{box(busy.command)} || echo '{UNANSWERED}'"} if busy else {}),
        }

    def facts(self, sections: Mapping[str, str]) -> Facts:
        said = sections.get("version", "")
        found = re.search(self.options.version_pattern, said, re.MULTILINE)
        if found is None and self.options.version_command:
            raise DutError(
                f"'{self.options.version_command}' does not print the version: {shown(said)}",
                "set dut.options.version_pattern to match the version",
                code="unexpected-answer",
            )
        version = "" if found is None else found[1 if found.re.groups else 0]
        jumps = [Peer("jump", ip_address(a), 0) for a in self._reached().jump_addresses]
        return Facts(
            system="a device with a command line",
            version=" ".join(version.split())[:80],
            boot="",
            way=Way((*_peers(sections.get("ends", "")), *jumps)),
            sections=dict(sections),
        )

    def example(self, intent: Intent) -> Facts:
        return Facts("a device with a command line", self.options.version, boot="")

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Refuse missing lines, and a device that somebody else is configuring."""
        for name in ("configure", "verify", "restore"):
            if not getattr(self.options, name):
                raise UsageError(
                    f"{self.name} has no built-in configuration, and dut.options.{name} is empty",
                    f"{PAGE} has complete testbed files",
                    code="missing-setting",
                )
        busy, said = self.options.busy, facts.sections.get("busy", "")
        found = re.search(busy.pattern, said, re.MULTILINE) if busy else None
        if busy and said.rstrip().endswith(UNANSWERED):
            raise DutError(
                f"'{busy.command}' failed, so v6t cannot check whether the device is in use",
                "nothing was changed; dut.options.busy.command sets the command",
                code="device-busy",
            )
        if found:
            raise DutError(
                f"the device is in use: '{busy.command}' prints {shown(found[0])}",
                "nothing was changed; wait for their end",
                code="device-busy",
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        own, places = self.options, self._places(intent)
        checks = _checks(places, own.verify, "verify")
        steps: list[Step] = []
        confirm = own.confirm
        timed = confirm is not None and bool(confirm.before or confirm.cancel)
        main = 1 + bool(own.prepare) + timed
        if own.prepare:
            # what restoring needs is not taken away before it has been of use
            used = f"! grep -qx {main} {PROGRESS} || grep -qx {main} {UNDONE}"
            tidied = f"if {used}; then box; else false; fi"
            steps.append(self._typed(places, own.prepare, "what restoring needs", own.tidy, tidied))
        if confirm is not None and timed:
            # once it is made to stay, there is no timer any more
            kept = f"grep -qx {main + 1} {PROGRESS} || box"
            why = "the device's own timer: it takes back what nobody confirms"
            step = self._typed(places, confirm.before, why, confirm.cancel, kept)
            steps.append(step if confirm.before else replace(step, set="true"))
        steps.append(self._configured(intent, places, checks[0]))
        if confirm:
            steps.append(
                self._typed(places, confirm.keep, "it still answers: the configuration stays")
            )
        flush = []
        if own.flush:
            check = _checks(places, [own.flush.check], "flush.check")[0]
            lines = places.lines(own.flush.lines)
            flush.append(
                Step(
                    box(*lines),
                    "empty the device's state",
                    proof=check,
                    deadline_s=self._deadline_s(len(lines)),
                )
            )
        return Plan(
            self.name,
            facts.version,
            tuple(steps),
            tuple(flush),
            tuple(checks[1:]),
            (
                "the shell is this machine's; `box` types lines at the device and prints its answers",
            ),
        )

    def _configured(self, intent: Intent, places: Places, check: Check) -> Step:
        own, compare = self.options, self.options.compare
        look, undo_by = "", "box"
        if compare:
            but = [f"--but={pattern}" for pattern in compare.but]
            line = shlex.join([*but, *_line(compare.command)])
            look, undo_by = f"box --digest {line}", f"box --back-to {{old}} {line}"
        step = self._typed(
            places, own.configure, f"make it what {intent.technology} needs", own.restore, undo_by
        )
        wait = f" && sleep {own.settle_s:g}" if own.settle_s else ""
        return replace(
            step,
            set=step.set + wait,
            read=look,
            proof=check,
            # with `compare`, restoring reads before and after
            deadline_s=min(LONGEST_S, step.deadline_s + own.settle_s + self._deadline_s(1)),
        )

    def _typed(
        self,
        places: Places,
        lines: Sequence[str],
        why: str,
        undo: Sequence[str] = (),
        undo_by: str = "box",
    ) -> Step:
        """Make a step that types lines, and whose undo types others."""
        typed, back = places.lines(lines), places.lines(undo)
        return Step(
            "box",
            why,
            text="".join(f"{line}\n" for line in typed),
            undo=undo_by if back else "",
            undo_text="".join(f"{line}\n" for line in back),
            deadline_s=self._deadline_s(max(len(typed), len(back)) + 1),
        )

    def profile(self, intent: Intent) -> ExpectProfile:
        return ExpectProfile(
            **self.options.profile.model_dump(), why="declared in the testbed file"
        )

    def sessions(self, intent: Intent) -> Reading | None:
        own = self.options.sessions
        if own is None:
            return None

        def count(text: str) -> Mapping[str, float]:
            number = first_number(own.pattern, text)
            return {} if number is None else {"sessions": number}

        return Reading(box(own.command), count)

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """By the user's lines, in the names of all devices."""
        by: dict[str, list[WatchText]] = {}
        for own in self.options.telemetry:
            by.setdefault(reading_of(re.compile(own.pattern).groupindex), []).append(own)
        return {
            name: Reading(
                box(*dict.fromkeys(own.command for own in all_of)),
                partial(figures, tuple(dict.fromkeys(own.pattern for own in all_of))),
                losses=LOSSES if name == DROPS else {},
            )
            for name, all_of in by.items()
        }

    def _reached(self) -> SshOptions:
        ssh: SshOptions | None = self.options.ssh
        if ssh is None:
            raise UsageError(
                f"how is the {self.name} device reached?",
                "give dut.options.ssh.host and the lines to be typed in the testbed file, and a tester wired "
                f"to it; {PAGE} has complete ones",
                code="missing-setting",
            )
        return ssh

    def _places(self, intent: Intent) -> Places:
        sides = {side: str(getattr(self.options, side)) for side in ("left", "right")}
        return places_of(intent, sides)

    def _deadline_s(self, lines: int) -> float:
        return min(LONGEST_S, (lines + 1) * self.manners.line_deadline_s)

    def _state_dir(self) -> str:
        """One directory for each device, which a start of this machine does not empty."""
        ssh = self.options.ssh
        words = (ssh.user, ssh.host or ssh.lab, ssh.port or "") if ssh is not None else ("none",)
        name = re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(str(w) for w in words if w))
        base = SYSTEM_STATE if os.geteuid() == 0 else OWN_STATE.expanduser()
        return str(base / name)


def box(*lines: str) -> str:
    """Return the shell line that types lines at the device."""
    return shlex.join(["box", *_line(*lines)])


def _line(*lines: str) -> list[str]:
    """As words that are no options."""
    return ["--", *lines] if any(line.startswith("-") for line in lines) else list(lines)


def _checks(places: Places, checks: Iterable[LineCheck], what: str) -> list[Check]:
    """Read-backs, each as often as the values that it names.

    Raises:
        UsageError: there is none.
    """
    made = []
    for check in checks:
        name = next(n for n in CRITERIA if getattr(check, n) is not None)
        texts = (check.command, getattr(check, name))
        quoted = re.escape if name == "matches" else str
        for (command, _), (_, wanted) in zip(
            places.rows(texts), places.rows(texts, quoted), strict=True
        ):
            made.append(check.model_copy(update={name: wanted}).of(box(command)))
    if not made:
        raise UsageError(
            f"no read-back of dut.options.{what} is left: all are about what the technology does not have",
            code="no-read-back",
        )
    return made


def _peers(ends: str) -> list[Peer]:
    """Who must not be cut off, as far as this machine can tell."""
    peers = []
    for line in ends.splitlines():
        who, _, text = line.partition(" ")
        if who in ("client", "server"):
            address = ip_address(text)
            peers.append(Peer(who, address, 0 if who == "client" else address.max_prefixlen))
    return peers
