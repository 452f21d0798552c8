"""The base of translators in user space: configuration, TUN device, routes into it, process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux import filters, telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import add_routes, is_link, read_link, set_sysctls
from v6t.drivers.duts.plan import Existing, Intent, Plan, Step, equals
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.steps import create_object, start_daemon, stop_process, write_config_file

TUN = "v6t-nat64"
"""The name of the TUN device."""


class TunOptions(LinuxOptions):
    """Options of all translators behind a TUN device."""

    queue_length: int = Field(default=500, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops (``txqueuelen``)."""
    ipv4_addr: str = Field(default="", pattern=r"^[0-9.]*$")
    """The translator's own IPv4 address, outside every mapping; empty: chosen."""
    ipv6_addr: str = Field(default="", pattern=r"^[0-9A-Fa-f:.]*$")
    """The translator's own IPv6 address, outside every mapping; empty: chosen."""


class TunTranslator(LinuxDriver):
    """A stateless translator behind a TUN device; :meth:`shell` fills in its commands."""

    has_filters = True
    process_name: ClassVar[str]
    """Name of the process and of its files."""
    display_name: ClassVar[str]
    """Name of the translator in messages."""
    create_tun: ClassVar[str]
    """Command that creates the TUN device."""
    remove_tun: ClassVar[str]
    """Command that removes the TUN device."""
    start: ClassVar[str]
    """Command that starts the translator, which writes its process id to ``{pid}``."""
    writes_log: ClassVar[bool] = False
    """Whether the start command redirects messages to ``{log}``."""
    notes: Sequence[str] = ()

    @abstractmethod
    def configuration(self, intent: Intent, facts: Facts) -> str:
        """Return the text of the configuration file."""

    def prepare_start(self) -> Sequence[Step]:
        return ()

    def finish_start(self, intent: Intent, facts: Facts) -> Sequence[Step]:
        return ()

    def flush(self, intent: Intent) -> Sequence[Step]:
        return ()

    def shell(self, template: str) -> str:
        file = f"{self.options.state_dir}/{self.process_name}"
        files = {"config": f"{file}.conf", "pid": f"{file}.pid", "log": f"{file}.log"}
        return template.format(program=self.options.program, **files)

    def plan_notes(self, facts: Facts) -> Sequence[str]:
        return self.notes

    def get_telemetry_readings(self, intent: Intent) -> Mapping[str, Reading]:
        words = f"its `tx.dropped` are frames {self.display_name} did not fetch"
        return {
            **super().get_telemetry_readings(intent),
            f"tun {TUN}": telemetry.make_link_reading(TUN, words),
            "process": telemetry.make_process_reading(self.shell("{pid}")),
        }

    def find_translated_networks(self, intent: Intent) -> list[Any]:
        four, six = addresses.find_translated_networks(intent)
        return [*four, *six]

    def ipv6_side(self, intent: Intent) -> str:
        return addresses.get_ipv6_side(intent)

    def plan_filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        """Filter frames of either side before they reach the translator."""
        six = self.ipv6_side(intent)
        networks = self.find_translated_networks(intent)
        translated = {
            side: [net for net in networks if net.version == (6 if side == six else 4)]
            for side in ("left", "right")
        }
        return filters.make_filters(intent, facts, self.all_ports(intent), count, translated)

    def choose_own_addresses(self, intent: Intent) -> tuple[str, str]:
        taken, o = addresses.find_test_networks(intent), self.options
        return (
            addresses.choose_free_address(
                "ipv4_addr", o.ipv4_addr, addresses.OWN_IPV4_CANDIDATES, taken
            ),
            addresses.choose_free_address(
                "ipv6_addr", o.ipv6_addr, addresses.OWN_IPV6_CANDIDATES, taken
            ),
        )

    def plan_configuration(self, intent: Intent, facts: Facts) -> Plan:
        config, why = self.configuration(intent, facts), f"{self.display_name}'s configuration"
        steps = [
            *self.base(intent, facts),
            *self.prepare_start(),
            write_config_file(self.shell("{config}"), config, why),
            *self._make_tun_device(intent),
            self.run_translator(),
            *self.finish_start(intent, facts),
        ]
        return self.finish(facts, steps, self.flush(intent), notes=self.plan_notes(facts))

    def _make_tun_device(self, intent: Intent) -> list[Step]:
        mtu = max(intent.links.left.mtu, intent.links.right.mtu)
        queue = self.options.queue_length
        settings = {f"net.ipv6.conf.{TUN}.disable_ipv6": 0, f"net.ipv4.conf.{TUN}.rp_filter": 0}
        why = "both versions through the TUN device, whatever the source"
        routes = {str(net): f"dev {TUN}" for net in self.find_translated_networks(intent)}
        return [
            create_object(
                self.shell(self.create_tun),
                f"if ip link show dev {TUN} >/dev/null 2>&1; then {self.shell(self.remove_tun)}; fi",
                f"{self.display_name}'s TUN device",
                read=read_link(TUN),
                want=is_link(TUN),
            ),
            Step(
                f"ip link set dev {TUN} mtu {mtu} txqueuelen {queue} up",
                f"set the length of the TUN device's queue to {queue}",
                read=read_link(TUN),
                want=is_link(TUN, mtu=mtu, qlen=queue),
            ),
            set_sysctls(settings, why, existing=Existing.NONE),
            add_routes(routes, "into the translator"),
        ]

    def stop(self) -> str:
        """Return the shell line that stops only the translator that v6t started."""
        command = stop_process(self.shell("{pid}"), self.process_name)
        return f"rm -f {self.shell('{log}')}; {command}" if self.writes_log else command

    def run_translator(self) -> Step:
        """Start the translator; its process may exist before it has opened the TUN device."""
        return start_daemon(
            self.shell(self.start),
            self.shell("{pid}"),
            self.process_name,
            "the translator itself",
            probe=f"ip -o link show dev {TUN} | grep -o LOWER_UP",
            want=equals(f"{self.process_name}\nLOWER_UP"),
            stop=self.stop(),
        )
