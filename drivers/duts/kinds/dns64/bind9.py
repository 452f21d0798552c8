"""BIND 9 as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field
from v6t.drivers.duts.kinds.dns64.server import Dns64Server, ServerOptions
from v6t.drivers.duts.os.linux import set_up
from v6t.drivers.duts.plan import Check, Existing, Step, has_lines
from v6t.intent.families import Dns64Config


class Bind9Options(ServerOptions):
    """Options of BIND."""

    control_port: int = Field(default=19_953, ge=1, le=65_535)
    """Port on the device's loopback address at which rndc reaches it."""


class Bind9(Dns64Server):
    """ISC's named."""

    name = "bind9"
    title = "BIND 9"
    executed = "configured, verified, measured and restored (Debian's 9.18)"
    versions = ("9.18",)
    options_model = Bind9Options
    programs: Mapping[str, str] = {
        "named": "bind9", "rndc": "bind9-utils", "rndc-confgen": "bind9-utils",
    }  # fmt: skip
    version_command = "named -v"
    version_pattern = r"BIND (\d[\w.~+-]*)"
    process = "named"

    def prepare_start(self, place: str) -> Sequence[Step]:
        file = f"{place}/rndc.key"
        return (
            Step(
                f"rndc-confgen -a -c {file}",
                "a key for rndc",
                read=f"cat {file}",
                want=has_lines('key "rndc-key" {'),
                undo=f"rm -f {file}",
                existing=Existing.NONE,
            ),
            set_up("lo", "rndc reaches named by the loopback interface"),
        )

    def configuration(self, wanted: Dns64Config, place: str) -> str:
        return f"""include "{place}/rndc.key";
controls {{ inet 127.0.0.1 port {self.options.control_port} allow {{ 127.0.0.1; }} keys {{ "rndc-key"; }}; }};
logging {{ category default {{ null; }}; category unmatched {{ null; }}; }};
options {{
  directory "{place}";
  pid-file none;
  session-keyfile none;
  managed-keys-directory "{place}";
  listen-on {{ none; }};
  listen-on-v6 port 53 {{ {wanted.resolver}; }};
  allow-query {{ {wanted.clients}; }};
  allow-recursion {{ {wanted.clients}; }};
  allow-query-cache {{ {wanted.clients}; }};
  recursion yes;
  dnssec-validation no;
  empty-zones-enable no;
  minimal-responses yes;
  recursive-clients 100000;
  dns64 {wanted.prefix} {{ clients {{ any; }}; }};
}};
zone "{wanted.zone}" {{ type static-stub; server-addresses {{ {wanted.server}; }}; }};
"""

    def command(self, file: str, place: str) -> str:
        return f"named -f -n {self.options.threads} -c {file}"

    def flush_cache(self, file: str, place: str) -> Step:
        control = f"rndc -k {place}/rndc.key -s 127.0.0.1 -p {self.options.control_port}"
        running = has_lines("server is up and running")
        command = f"{control} flush"
        return Step(command, "flush the DNS cache", proof=Check(f"{control} status", running))
