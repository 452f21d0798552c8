"""TAYGA, a stateless IPv4/IPv6 translator in user space."""

from collections.abc import Mapping

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.tun import TUN_NAME, TunOptions, TunTranslator
from v6t.drivers.duts.plan import Intent
from v6t.intent.families import SiitConfig


class TaygaOptions(TunOptions):
    """Options of TAYGA."""

    program: str = Field(default="tayga", pattern=r"^([A-Za-z0-9_./-]*/)?tayga$")
    """Path of the program."""


class MyTayga(TunTranslator):
    """TAYGA behind a TUN device."""

    name = "my-tayga"
    title = "TAYGA, stateless translation in user space"
    supported_configurations = (SiitConfig,)
    test_status = "configured, verified, measured and restored with real frames (Debian's 0.9.2-8)"
    versions = ("0.9.2-8",)
    programs: Mapping[str, str] = {"tayga": "tayga"}
    version_command = "dpkg-query -W -f '${Version}' tayga"
    version_pattern = r"(\d\S*)"
    options_model = TaygaOptions
    notes = ("IPv4 packets whose UDP checksum is 0 are dropped",)

    process_name = "tayga"
    display_name = "TAYGA"
    create_tun_command = "{program} -c {config} --mktun"
    remove_tun_command = "{program} -c {config} --rmtun"
    start_command = "{program} -c {config} -p {pid}"

    def check_device(self, intent: Intent, facts: Facts) -> None:
        """Refuse mappings that TAYGA does not start with."""
        super().check_device(intent, facts)
        siit = intent.get_configuration(SiitConfig)
        for ipv4, ipv6 in siit.eam:
            if ipv4.prefixlen + 96 != ipv6.prefixlen:
                raise UsageError(
                    f"TAYGA does not map {ipv4} to {ipv6}: the host bits are not equally many",
                    f"use an IPv6 prefix of /{ipv4.prefixlen + 96}",
                    code="unsupported-by-device",
                )
        if siit.lowest_ipv6_mtu != 1280:
            raise UsageError(
                f"TAYGA {facts.version} cannot configure lowest_ipv6_mtu {siit.lowest_ipv6_mtu}",
                "set lowest_ipv6_mtu to 1280",
                params={"lowest_ipv6_mtu": 1280},
                code="unsupported-by-device",
            )

    def make_configuration(self, intent: Intent, facts: Facts) -> str:
        """Return the text of ``tayga.conf``."""
        siit = intent.get_configuration(SiitConfig)
        own4, own6 = self.choose_translator_addresses(intent)
        lines = [f"tun-device {TUN_NAME}", f"ipv4-addr {own4}", f"ipv6-addr {own6}"]
        if siit.prefix:
            lines.append(f"prefix {siit.prefix}")
        for ipv4, ipv6 in siit.eam:
            host = ipv4.prefixlen == 32
            lines.append(f"map {ipv4[0]} {ipv6[0]}" if host else f"map {ipv4} {ipv6}")
        return "\n".join([*lines, ""])

    def get_header_profile(self, intent: Intent) -> HeaderProfile:
        """Return how TAYGA's frames differ from the reference translation."""
        return HeaderProfile(
            further_hops=2,
            df="set",
            zero_checksum="always",
            why="kernel, TAYGA and kernel each take a hop; TAYGA 0.9.2 sets DF and writes UDP checksums of 0",
        )
