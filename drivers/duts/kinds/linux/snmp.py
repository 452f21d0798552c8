"""An SNMP agent of v6t's own on a Linux device, which is asked under traffic (RFC 2544 section 11.2)."""

from __future__ import annotations

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.plan import Check, Step, equals
from v6t.drivers.duts.programs import lacking
from v6t.drivers.duts.steps import config_file, daemon, directory

AGENT, CLIENT = "snmpd", "snmpget"
FORWARDING = ".1.3.6.1.2.1.4.1.0"
"""ipForwarding of the MIB-II (RFC 4293): 1 where the driver has made a router of the device."""


def steps(facts: Facts, state_dir: str) -> tuple[list[Step], Check]:
    """Return the steps that start the agent, and the query."""
    for program, package in ((AGENT, "snmpd"), (CLIENT, "snmp")):
        if program not in facts.programs:
            raise lacking(program, package, ", with which SNMP is spoken")
    place = f"{state_dir}/snmp"
    file, pid = f"{place}/agent.conf", f"{place}/agent.pid"
    # no port: one may be in use, and each query by UDP would be a connection in the device's table
    at = f"unix:{place}/agent.sock"
    text = (
        f"agentaddress {at}\ncom2secunix v6t default v6t\ngroup v6t v2c v6t\n"
        'view all included .1\naccess v6t "" v2c noauth exact all none none\n'
    )
    query = Check(f"{CLIENT} -m '' -v 2c -c v6t -t 1 -r 0 -O qvU {at} {FORWARDING}", equals(1))
    start = (
        f"SNMP_PERSISTENT_DIR={place} MIBS= {AGENT} -C -c {file} -p {pid} -Lf /dev/null"
        f"; n=0; until {query.command} >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 25 ] || break; "
        "sleep 0.2; done"
    )
    return [
        directory(place, "a directory for the agent's files"),
        config_file(file, text, "the SNMP agent's configuration"),
        daemon(start, pid, AGENT, "an SNMP agent of v6t's own"),
    ], query
