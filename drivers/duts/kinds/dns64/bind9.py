"""BIND 9 as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field
from v6t.drivers.duts.kinds.dns64.server import Dns64Server, Dns64ServerOptions
from v6t.drivers.duts.os.linux import make_link_up_step
from v6t.drivers.duts.plan import IfExists, Step, expect_lines


class Bind9Options(Dns64ServerOptions):
    """Options of BIND."""

    control_port: int = Field(default=19_953, ge=1, le=65_535)
    """Port on the device's loopback address at which rndc reaches it."""


class Bind9(Dns64Server):
    """Driver of BIND 9 (``named``), controlled by ``rndc``."""

    name = "bind9"
    title = "BIND 9"
    test_status = "configured, verified, measured and restored (Debian's 9.18)"
    versions = ("9.18",)
    options_model = Bind9Options
    programs: Mapping[str, str] = {
        "named": "bind9", "rndc": "bind9-utils", "rndc-confgen": "bind9-utils",
    }  # fmt: skip
    version_command = "named -v"
    version_pattern = r"BIND (\d[\w.~+-]*)"
    process_name = "named"
    start_command = "named -f -n {options.threads} -c {config}"
    control_command = "rndc -k {directory}/rndc.key -s 127.0.0.1 -p {options.control_port}"
    expected_status = expect_lines("server is up and running")
    configuration = """\
include "{directory}/rndc.key";
controls {{ inet 127.0.0.1 port {options.control_port} allow {{ 127.0.0.1; }} keys {{ "rndc-key"; }}; }};
logging {{ category default {{ null; }}; category unmatched {{ null; }}; }};
options {{
  directory "{directory}";
  pid-file none;
  session-keyfile none;
  managed-keys-directory "{directory}";
  listen-on {{ none; }};
  listen-on-v6 port 53 {{ {dns64.resolver}; }};
  allow-query {{ {dns64.clients}; }};
  allow-recursion {{ {dns64.clients}; }};
  allow-query-cache {{ {dns64.clients}; }};
  recursion yes;
  dnssec-validation no;
  empty-zones-enable no;
  minimal-responses yes;
  recursive-clients 100000;
  dns64 {dns64.prefix} {{ clients {{ any; }}; }};
}};
zone "{dns64.zone}" {{ type static-stub; server-addresses {{ {dns64.server}; }}; }};
"""

    def make_preparation_steps(self, directory: str) -> Sequence[Step]:
        file = f"{directory}/rndc.key"
        return (
            Step(
                f"rndc-confgen -a -c {file}",
                "a key for rndc",
                read=f"cat {file}",
                expected=expect_lines('key "rndc-key" {'),
                undo=f"rm -f {file}",
                existing=IfExists.NONE,
            ),
            make_link_up_step("lo", "rndc reaches named by the loopback interface"),
        )
