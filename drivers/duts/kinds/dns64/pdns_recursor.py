"""PowerDNS Recursor as a DNS64 server."""

from __future__ import annotations

import re
from collections.abc import Mapping

from v6t.base.errors import UsageError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.dns64.server import Dns64Server
from v6t.drivers.duts.plan import Check, Intent, Step, equals
from v6t.intent.families import Dns64Config

FIRST_VERSION = (4, 4)
"""The first version with ``dns64-prefix``."""
FIRST_YAML_VERSION = (5, 2)
"""The first version that does not read old-style settings unless it is told to."""


class PdnsRecursor(Dns64Server):
    """PowerDNS Recursor."""

    name = "pdns-recursor"
    title = "PowerDNS Recursor"
    executed = "configured, verified, measured and restored (Debian's 4.8)"
    versions = ("4.8",)
    programs: Mapping[str, str] = {
        "pdns_recursor": "pdns-recursor", "rec_control": "pdns-recursor",
    }  # fmt: skip
    version_command = "pdns_recursor --version 2>&1"
    version_pattern = r"PowerDNS Recursor (\d[\w.]*)"
    process = "pdns_recursor"
    file = "recursor-v6t.conf"
    prefix_lengths = (96,)

    def refuse(self, intent: Intent, facts: Facts) -> None:
        super().refuse(intent, facts)
        numbers = tuple(map(int, re.findall(r"\d+", facts.version)[:2]))
        if numbers and not FIRST_VERSION <= numbers < FIRST_YAML_VERSION:
            raise UsageError(
                f"the driver configures PowerDNS Recursor 4.4 to 5.1, not {facts.version}",
                "before 4.4 it has no dns64-prefix; from 5.2 on it expects a YAML file: install "
                "another version, or choose another DNS64 server",
                code="unsupported-by-version",
            )

    def configuration(self, wanted: Dns64Config, place: str) -> str:
        return f"""config-dir={place}
socket-dir={place}
daemon=no
write-pid=no
local-address={wanted.resolver}
local-port=53
query-local-address=0.0.0.0, ::
allow-from={wanted.clients}
dont-query=
forward-zones={wanted.zone}={wanted.server}
dns64-prefix={wanted.prefix}
dnssec=off
hint-file=no
security-poll-suffix=
threads={self.options.threads}
max-mthreads=8192
server-down-max-fails=0
loglevel=0
quiet=yes
"""

    def command(self, file: str, place: str) -> str:
        """Start in the foreground; it derives the name of its file from ``--config-name``."""
        return f"pdns_recursor --config-dir={place} --config-name=v6t"

    def flush_cache(self, file: str, place: str) -> Step:
        control = f"rec_control --socket-dir={place} --config-dir={place} --config-name=v6t"
        answers = Check(f"{control} ping", equals("pong"))
        return Step(f"{control} wipe-cache $", "flush the DNS cache", proof=answers)
