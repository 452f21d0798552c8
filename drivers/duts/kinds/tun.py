"""The base of translators in user space: configuration, TUN device, routes into it, process."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts import steps
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux import filters, telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import IfExists, Intent, Plan, Step, expect_text
from v6t.drivers.duts.readings import Reading

TUN_NAME = "v6t-nat64"  # name of the TUN device


class TunOptions(LinuxOptions):
    """Options of every translator behind a TUN device."""

    queue_length: int = Field(default=500, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops (``txqueuelen``)."""
    ipv4_addr: str = Field(default="", pattern=r"^[0-9.]*$")
    """IPv4 address of the translator itself, outside every mapping; empty: chosen by v6t."""
    ipv6_addr: str = Field(default="", pattern=r"^[0-9A-Fa-f:.]*$")
    """IPv6 address of the translator itself, outside every mapping; empty: chosen by v6t."""


class TunTranslator(LinuxDriver):
    """Base class of drivers for translators behind a TUN device, with templates of their commands."""

    has_filters = True
    process_name: ClassVar[str]  # name of the process and of its files
    display_name: ClassVar[str]  # name of the translator in messages
    create_tun_command: ClassVar[str]  # command that creates the TUN device
    remove_tun_command: ClassVar[str]  # command that removes the TUN device
    # command that starts the translator, which writes its process id to ``{pid}``, perhaps a ``{log}``
    start_command: ClassVar[str]

    @abstractmethod
    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        """Return the text of the configuration file."""

    def make_preparation_steps(self) -> Sequence[Step]:
        """Return the steps to execute before the configuration file is written."""
        return ()

    def fill_in(self, template: str) -> str:
        """Return a template with ``{program}``, ``{config}``, ``{pid}`` and ``{log}`` replaced."""
        file = f"{self.options.state_dir}/{self.process_name}"
        files = {"config": f"{file}.conf", "pid": f"{file}.pid", "log": f"{file}.log"}
        return self.format_template(template, program=self.options.program, **files)

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        words = f"its `tx.dropped` are frames that {self.display_name} did not read"
        return {
            **super().get_telemetry_readings(intent),
            f"tun {TUN_NAME}": telemetry.make_link_reading(TUN_NAME, words),
            "process": telemetry.make_process_reading(self.fill_in("{pid}")),
        }

    def find_translated_networks(self, intent: Intent) -> list[Any]:
        """Return the networks that are routed into the TUN device."""
        four, six = addresses.find_translated_networks(intent)
        return [*four, *six]

    def plan_filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        """Return the steps that filter frames of either side before they reach the translator."""
        networks = self.find_translated_networks(intent)
        destinations = {
            addresses.get_side(intent, version): [n for n in networks if n.version == version]
            for version in (4, 6)
        }
        ports, backgrounds = self.get_ports(intent), self.get_background_ports(intent)
        return filters.make_filter_steps(intent, facts, ports, backgrounds, count, destinations)

    @property
    def ipv4_candidates(self) -> Sequence[str]:
        """Candidates for the translator's own IPv4 address; the first unused one is chosen."""
        return addresses.TRANSLATOR_IPV4_CANDIDATES

    def choose_translator_addresses(self, intent: Intent) -> tuple[str, str]:
        """Return the translator's own IPv4 and IPv6 address: each as configured, else an unused one."""
        used_networks, own = addresses.find_test_networks(intent), self.options
        choose = partial(addresses.choose_free_address, used_networks=used_networks)
        four = choose("ipv4_addr", own.ipv4_addr, self.ipv4_candidates)
        return four, choose("ipv6_addr", own.ipv6_addr, addresses.TRANSLATOR_IPV6_CANDIDATES)

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        config, why = self.make_configuration(intent, facts), f"{self.display_name}'s configuration"
        setup_steps = [
            *self.make_preparation_steps(),
            steps.make_config_file_step(self.fill_in("{config}"), config, why),
            *self._make_tun_steps(intent),
            self.make_daemon_step(),
        ]
        return self.assemble_plan(intent, facts, setup_steps)

    def _make_tun_steps(self, intent: Intent) -> list[Step]:
        mtu = max(intent.links.left.mtu, intent.links.right.mtu)
        queue = self.options.queue_length
        keys = (f"net.ipv6.conf.{TUN_NAME}.disable_ipv6", f"net.ipv4.conf.{TUN_NAME}.rp_filter")
        why = "both IP versions through the TUN device, with any source"
        settings_step = linux.make_sysctl_step(dict.fromkeys(keys, 0), why)
        routes = {str(net): f"dev {TUN_NAME}" for net in self.find_translated_networks(intent)}
        create, remove = map(self.fill_in, (self.create_tun_command, self.remove_tun_command))
        delete = f"if ip link show dev {TUN_NAME} >/dev/null 2>&1; then {remove}; fi"
        device, read = f"{self.display_name}'s TUN device", linux.make_show_link_command(TUN_NAME)
        exists = linux.expect_link(TUN_NAME)
        is_up = linux.expect_link(TUN_NAME, mtu=mtu, qlen=queue)
        longer = f"set the length of the TUN device's queue to {queue}"
        settings = f"mtu {mtu} txqueuelen {queue}"
        return [
            steps.make_object_step(create, delete, device, read=read, expected=exists),
            linux.make_link_settings_step(TUN_NAME, settings, longer, is_up),
            replace(settings_step, undo="", undo_text="", existing=IfExists.NONE),
            linux.make_routes_step(routes, "into the translator"),
        ]

    def make_stop_command(self) -> str:
        """Return the shell line that stops only the translator that v6t started."""
        command = steps.make_process_stop_command(self.fill_in("{pid}"), self.process_name)
        has_log = "{log}" in self.start_command
        return f"rm -f {self.fill_in('{log}')}; {command}" if has_log else command

    def make_daemon_step(self) -> Step:
        """Return the step that starts the translator and waits until it has opened the TUN device."""
        return steps.make_daemon_step(
            self.fill_in(self.start_command),
            self.fill_in("{pid}"),
            self.process_name,
            "the translator itself",
            probe=f"ip -o link show dev {TUN_NAME} | grep -o LOWER_UP",
            expected=expect_text(f"{self.process_name}\nLOWER_UP"),
            stop=self.make_stop_command(),
        )
