"""Unbound as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.kinds.dns64.server import Dns64Server
from v6t.drivers.duts.plan import expect_matching_line


class Unbound(Dns64Server):
    """Driver of NLnet Labs' Unbound with its module dns64."""

    name = "unbound"
    title = "Unbound"
    test_status = "configured, verified, measured and restored (Debian's 1.17.1)"
    versions = ("1.17.1",)
    programs: Mapping[str, str] = {"unbound": "unbound", "unbound-control": "unbound"}
    version_command = "unbound -V"
    version_pattern = r"Version (\d[\w.]*)"
    process_name = "unbound"
    start_command = "unbound -d -c {config}"
    control_command = "unbound-control -c {config}"
    flush_verb = "reload"  # unlike ``flush``, it also clears the server timings
    expected_status = expect_matching_line(r"unbound \(pid \d+\) is running\.\.\.", "'is running'")
    # without Unbound's built-in answers for ``test.`` (RFC 6761)
    configuration = """\
server:
  interface: {dns64.resolver}
  port: 53
  access-control: {dns64.clients} allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{directory}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: {options.threads}
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
  dns64-prefix: {dns64.prefix}
stub-zone:
  name: "{dns64.zone}"
  stub-addr: {dns64.server}
remote-control:
  control-enable: yes
  control-interface: {directory}/unbound.control
  control-use-cert: no
"""
