"""Base of DNS64 servers that run as a separate process on Linux."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.addresses import EXAMPLE_PREFIX
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.telemetry import make_process_reading
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Check, Expectation, Intent, Plan, Step, expect_output, find_line
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.drivers.duts.steps import (
    make_config_file_step,
    make_daemon_step,
    make_directory_step,
    make_process_stop_command,
)
from v6t.intent.families import Dns64Config


class Dns64ServerOptions(LinuxOptions):
    """Options of all DNS64 servers."""

    threads: int = Field(default=1, ge=1, le=256)  #: Threads that answer queries.


class Dns64Server(LinuxDriver):
    """Base of drivers of DNS64 servers, which run in addition to the device's own DNS service."""

    supported_configurations = (Dns64Config,)
    options_model = Dns64ServerOptions
    notes = ("the cache is emptied before each trial",)
    process_name: ClassVar[str]  # as the kernel shows it
    start_command: ClassVar[str] = ""  # template of the foreground command
    control_command: ClassVar[str] = ""  # template, without the verb
    flush_verb: ClassVar[str] = "flush"
    status_verb: ClassVar[str] = "status"
    expected_status: ClassVar[Expectation]  # expected output of the status verb
    config_file_name: ClassVar[str] = "server.conf"  # name of the configuration file
    configuration: ClassVar[str]  # template of this file; ``{{`` stands for a brace
    # supported lengths of the NAT64 prefix
    prefix_lengths: ClassVar[Sequence[int]] = (32, 40, 48, 56, 64, 96)

    def fill_in(self, template: str, directory: str, dns64: Dns64Config | None = None) -> str:
        """Return a template with the placeholders of its fields replaced."""
        config = f"{directory}/{self.config_file_name}"
        fields = {"options": self.options, "directory": directory, "config": config}
        return template.format(dns64=dns64, **fields)

    def make_flush_step(self, directory: str) -> Step:
        """Return the step that flushes the cache and checks that the server answers."""
        flush, status = (
            self.fill_in(f"{self.control_command} {verb}", directory)
            for verb in (self.flush_verb, self.status_verb)
        )
        return Step(flush, "flush the DNS cache", proof=Check(status, self.expected_status))

    def make_stop_command(self, pid: str) -> str:
        return make_process_stop_command(pid, self.process_name)

    def make_preparation_steps(self, directory: str) -> Sequence[Step]:
        """Return the steps between creating the directory and writing the configuration."""
        return ()

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        prefix = intent.configuration_as(Dns64Config).prefix
        if prefix.prefixlen not in self.prefix_lengths:
            supported = " or ".join(f"/{length}" for length in self.prefix_lengths)
            problem = f"{self.name} supports a prefix of {supported} only, not {prefix}"
            hint = "set the plugin's parameter prefix"
            raise make_unsupported_error(problem, hint, params={"prefix": EXAMPLE_PREFIX})

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        return {
            **super().get_telemetry_readings(intent),
            "udp": Reading(
                "grep -hE '^Udp6?(InDatagrams|InErrors|RcvbufErrors)' /proc/net/snmp6",
                make_sum_parser(r"^[ \t]*(\S+)[ \t]+(\d+)[ \t]*$"),
                "queries that came, and those that found no room in a socket (`/proc/net/snmp6`)",
                {"Udp6?RcvbufErrors": LossReason.QUEUE, "Udp6?InErrors": LossReason.TOTAL},
            ),
            "process": make_process_reading(f"{self.options.state_dir}/dns/{self.name}.pid"),
        }

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        dns64, directory = intent.configuration_as(Dns64Config), f"{self.options.state_dir}/dns"
        file, pid = f"{directory}/{self.config_file_name}", f"{directory}/{self.name}.pid"
        log, run = f"{directory}/{self.name}.log", self.fill_in(self.start_command, directory)
        text = self.fill_in(self.configuration, directory, dns64)
        socket = f"[{dns64.resolver}]:53"

        def is_listening(output: str) -> bool:
            name, _, sockets = output.partition("\n")
            return name == self.process_name and find_line(sockets, socket) is not None

        server = make_daemon_step(
            f"cd {directory} && {{ setsid {run} >{log} 2>&1 </dev/null & echo $! >{pid}; }}",
            pid,
            self.process_name,
            "the server itself",
            probe=f"ss -Hlun src '{socket}'",
            expected=expect_output(is_listening, f"{self.process_name}, listening"),
            log=log,
            stop=self.make_stop_command(pid),
        )
        steps = [
            make_directory_step(directory, "a directory for the server's files"),
            *self.make_preparation_steps(directory),
            make_config_file_step(file, text, f"{self.title}: configuration"),
            server,
        ]
        return self.assemble_plan(intent, facts, steps, [self.make_flush_step(directory)])
