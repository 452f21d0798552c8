"""Driver of devices with their own command line, configured by the user's lines."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.command import CHECK_CRITERIA
from v6t.drivers.duts.kinds.network_cli import options
from v6t.drivers.duts.kinds.network_cli.places import Placeholders, collect_placeholders
from v6t.drivers.duts.kinds.network_cli.session import BUSY_CHECK_REJECTED, CliSession, LabCliDevice
from v6t.drivers.duts.management_path import ManagementPath, ManagementPeer
from v6t.drivers.duts.options import require_ssh
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, shorten_output
from v6t.drivers.duts.readings import Reading
from v6t.drivers.options import parse_options
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.families import DeviceConfig

SYSTEM_NAME = "a device with a command line"  # value of Facts.system
MANUAL_PAGE = "docs/duts/network-cli.md"
SYSTEM_STATE_DIR, USER_STATE_DIR = Path("/var/lib/v6t"), Path("~/.local/state/v6t")


class NetworkCliDriver(Driver):
    """Driver of any device with a command line; it types the lines that the user supplies."""

    name = "network-cli"
    title = "any device with a command line, configured by your own lines over SSH"
    supported_configurations = (DeviceConfig,)
    test_status = "tested with command lines like those of IOS and Junos; no vendor's device"
    options_model = options.NetworkCliOptions
    session_type = CliSession
    lab_device_type = LabCliDevice

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        if not self.options.state_dir:
            # one directory for each device, which survives a reboot of this machine; devices behind
            # different hosts may have the same address
            ssh = self.options.ssh
            place = ["none"] if ssh is None else [
                ssh.user, ssh.host or ssh.lab, ssh.port, ssh.jump, ssh.config
            ]  # fmt: skip
            readable = re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(str(w) for w in place[:3] if w))
            name = f"{readable}-{hashlib.sha256(json.dumps(place).encode()).hexdigest()[:8]}"
            base = SYSTEM_STATE_DIR if os.geteuid() == 0 else USER_STATE_DIR.expanduser()
            self.options = self.options.model_copy(update={"state_dir": str(base / name)})

    @cached_property
    def cli_options(self) -> options.CliOptions:
        """Options of the command line: those set by the user, else the platform's, else defaults."""
        own: options.CliOptions = self.options.cli
        if not (platform := self.options.platform):
            return own
        configured = options.get_platform_options(platform) | own.model_dump(exclude_unset=True)
        return parse_options(options.CliOptions, platform, "platform", configured)

    def get_timeout_s(self, intent: Intent) -> float | None:
        return float(self.options.timeout_s) or None

    def get_survey_commands(self) -> Mapping[str, str]:
        busy = self.options.busy
        commands = {"version": self.options.version_command, "busy": busy and busy.command}
        return {name: line for name, line in commands.items() if line}

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        answer, command = sections.get("version", ""), self.options.version_command
        match = re.search(self.options.version_pattern, answer, re.MULTILINE)
        if match is None and command:
            problem = f"'{command}' does not print the version: {shorten_output(answer)}"
            hint = "set dut.options.version_pattern to match the version"
            raise DutError(problem, hint, code="unexpected-answer")
        version = "" if match is None else match[1 if match.re.groups else 0]
        ssh, unknown = self.require_ssh(), ""
        peers = [ManagementPeer("jump", ip_address(a), 0) for a in ssh.jump_addresses]
        for line in sections.get("ends", "").splitlines():
            role, _, text = line.partition(" ")
            address = ip_address(text)
            length = 0 if role == "client" else address.max_prefixlen
            peers.append(ManagementPeer(role, address, length))
        if not ssh.lab and all(peer.role != "server" for peer in peers):
            unknown = f"{ssh.host} cannot be resolved here; dut.options.ssh.host may be an address"
        version, path = " ".join(version.split())[:80], ManagementPath(tuple(peers), unknown)
        return Facts(SYSTEM_NAME, version, "", management_path=path, sections=dict(sections))

    def make_example_facts(self, intent: Intent) -> Facts:
        return Facts(SYSTEM_NAME, self.options.version, boot_id="")

    def check_device(self, intent: Intent, facts: Facts) -> None:
        for name in ("configure", "verify", "restore"):
            if not getattr(self.options, name):
                problem = f"{self.name} has no built-in configuration: dut.options.{name} is empty"
                hint = f"{MANUAL_PAGE} has a complete testbed file"
                raise UsageError(problem, hint, code="missing-setting")
        busy, answer = self.options.busy, facts.sections.get("busy", "")
        if busy and answer == BUSY_CHECK_REJECTED:
            problem = f"'{busy.command}' failed, so v6t cannot check whether the device is in use"
            hint = "nothing was changed; dut.options.busy.command sets the command"
            raise DutError(problem, hint, code="device-busy")
        if busy and (match := re.search(busy.pattern, answer, re.MULTILINE)):
            problem = f"the device is in use: '{busy.command}' prints {shorten_output(match[0])}"
            hint = "nothing was changed; wait until the device is free"
            raise DutError(problem, hint, code="device-busy")

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        own, confirm = self.options, self.options.confirm
        sides = {side: str(getattr(own, side)) for side in ("left", "right")}
        placeholders = collect_placeholders(intent, sides)
        first, *checks = _make_checks(placeholders, own.verify, "verify")
        steps: list[Step] = []

        def add_step(why: str, lines: Sequence[str], undo: Sequence[str] = (), **more: Any) -> None:
            text, undo_text = ("\n".join(placeholders.expand(texts)) for texts in (lines, undo))
            steps.append(Step(text, why, undo=undo_text, **more))

        if own.prepare:
            add_step("save what the rollback needs", own.prepare, own.tidy)
        if confirm and (confirm.before or confirm.cancel):
            why = "start the device's own rollback timer"
            # the timer has been stopped once the last step has begun
            add_step(why, confirm.before, confirm.cancel, gone_test=str(len(steps) + 3))
        read = own.compare.command if own.compare else ""
        wait = f", and wait {own.settle_s:g} s" if own.settle_s else ""
        why = f"configure {intent.technology}{wait}"
        add_step(why, own.configure, own.restore, read=read, proof=first)
        if confirm:
            add_step("stop the device's own rollback timer", confirm.keep)
        flush = []
        if own.flush:
            (check, *_) = _make_checks(placeholders, [own.flush.check], "flush.check")
            lines = "\n".join(placeholders.expand(own.flush.lines))
            flush = [Step(lines, "empty the device's state", proof=check)]
        notes = ("these lines are typed at the device; lock and undo record are on this machine",)
        return Plan(self.name, facts.version, tuple(steps), tuple(flush), tuple(checks), notes)

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        return self.options.profile.make_profile()  # type: ignore[no-any-return]

    def get_session_reading(self, intent: Intent) -> Reading | None:
        if (own := self.options.sessions) is None:
            return None
        pattern = own.pattern if re.compile(own.pattern).groups else f"({own.pattern})"
        parse = partial(options.parse_figures, [pattern], figure_name="sessions")
        return Reading(own.command, parse)

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        watched: dict[str, list[options.TelemetryOptions]] = {}
        for own in self.options.telemetry:
            watched.setdefault(options.find_reading_name(own.pattern), []).append(own)
        return {
            name: Reading(
                "\n".join(dict.fromkeys(each.command for each in group)),
                partial(options.parse_figures, dict.fromkeys(each.pattern for each in group)),
                loss_reasons=options.LOSS_REASONS if name == options.DROPS_READING else {},
            )
            for name, group in watched.items()
        }

    def require_ssh(self) -> SshOptions:
        """Return the SSH options; raise UsageError for a device without them."""
        setting = "dut.options.ssh.host and the lines to type"
        return require_ssh(self.options.ssh, f"the {self.name} device", setting)


def _make_checks(
    placeholders: Placeholders, checks: Iterable[options.CliCheckOptions], option: str
) -> list[Check]:
    results = []
    for check in checks:
        criterion = next(n for n in CHECK_CRITERIA if getattr(check, n) is not None)
        quotes = (str, re.escape if criterion == "matches" else str)
        texts = (check.command, getattr(check, criterion))
        for command, expected in placeholders.expand_rows(texts, quotes):
            results.append(check.model_copy(update={criterion: expected}).make_check(command))
    if not results:
        problem = f"no read-back of dut.options.{option} applies to this technology"
        raise UsageError(problem, code="no-read-back")
    return results
