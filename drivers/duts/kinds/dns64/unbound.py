"""Unbound as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.kinds.dns64.server import Dns64Server
from v6t.drivers.duts.plan import Check, Step, has_line_like
from v6t.intent.families import Dns64Config


class Unbound(Dns64Server):
    """NLnet Labs' Unbound with its module dns64."""

    name = "unbound"
    title = "Unbound"
    executed = "configured, verified, measured and restored (Debian's 1.17.1)"
    versions = ("1.17.1",)
    programs: Mapping[str, str] = {"unbound": "unbound", "unbound-control": "unbound"}
    version_command = "unbound -V"
    version_pattern = r"Version (\d[\w.]*)"
    process = "unbound"

    def configuration(self, wanted: Dns64Config, place: str) -> str:
        """Configure a resolver for one zone, which it would answer itself by default (RFC 6761)."""
        return f"""server:
  interface: {wanted.resolver}
  port: 53
  access-control: {wanted.clients} allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{place}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: {self.options.threads}
  outgoing-range: 8192
  num-queries-per-thread: 4096
  so-rcvbuf: 4m
  msg-cache-size: 64m
  rrset-cache-size: 128m
  do-not-query-localhost: no
  local-zone: "test." nodefault
  qname-minimisation: no
  minimal-responses: yes
  module-config: "dns64 iterator"
  dns64-prefix: {wanted.prefix}
stub-zone:
  name: "{wanted.zone}"
  stub-addr: {wanted.server}
remote-control:
  control-enable: yes
  control-interface: {place}/unbound.control
  control-use-cert: no
"""

    def command(self, file: str, place: str) -> str:
        return f"unbound -d -c {file}"

    def flush_cache(self, file: str, place: str) -> Step:
        """Read the configuration again, which also forgets how slow a server seemed."""
        control = f"unbound-control -c {file}"
        running = has_line_like(r"unbound \(pid \d+\) is running\.\.\.", "'is running'")
        command = f"{control} reload"
        return Step(command, "flush the DNS cache", proof=Check(f"{control} status", running))
