"""PowerDNS Recursor as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts, parse_version
from v6t.drivers.duts.kinds.dns64.server import Dns64Server
from v6t.drivers.duts.plan import Intent, expect_text

FIRST_SUPPORTED_VERSION = (4, 4)  # first with the setting dns64-prefix
FIRST_YAML_VERSION = (5, 2)  # first that expects YAML settings by default


class PdnsRecursor(Dns64Server):
    """Driver of PowerDNS Recursor, configured by old-style settings instead of YAML."""

    name = "pdns-recursor"
    title = "PowerDNS Recursor"
    test_status = "configured, verified, measured and restored (Debian's 4.8)"
    versions = ("4.8",)
    programs: Mapping[str, str] = {
        "pdns_recursor": "pdns-recursor", "rec_control": "pdns-recursor",
    }  # fmt: skip
    version_command = "pdns_recursor --version 2>&1"
    version_pattern = r"PowerDNS Recursor (\d[\w.]*)"
    process_name = "pdns_recursor"
    start_command = "pdns_recursor --config-dir={directory} --config-name=v6t"
    control_command = (
        "rec_control --socket-dir={directory} --config-dir={directory} --config-name=v6t"
    )
    flush_verb, status_verb = "wipe-cache $", "ping"
    expected_status = expect_text("pong")
    config_file_name = "recursor-v6t.conf"
    prefix_lengths = (96,)
    configuration = """\
config-dir={directory}
socket-dir={directory}
daemon=no
write-pid=no
local-address={dns64.resolver}
local-port=53
query-local-address=0.0.0.0, ::
allow-from={dns64.clients}
dont-query=
forward-zones={dns64.zone}={dns64.server}
dns64-prefix={dns64.prefix}
dnssec=off
hint-file=no
security-poll-suffix=
threads={options.threads}
max-mthreads=8192
server-down-max-fails=0
loglevel=0
quiet=yes
"""

    def check_device(self, intent: Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        version = parse_version(facts.version)
        if version and not FIRST_SUPPORTED_VERSION <= version < FIRST_YAML_VERSION:
            problem = f"the driver configures PowerDNS Recursor 4.4 to 5.1, not {facts.version}"
            hint = "install one of these versions, or choose another DNS64 server"
            raise UsageError(problem, hint, code="unsupported-by-version")
