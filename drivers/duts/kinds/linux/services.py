"""An SNMP agent and a BGP speaker on a Linux device (RFC 2544, sections 11.2 and 11.3)."""

from v6t.drivers.duts import steps
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.os.linux import make_link_up_step
from v6t.drivers.duts.plan import Check, DeviceChange, Step, expect_text, expect_words

SNMP_AGENT, SNMP_CLIENT = "snmpd", "snmpget"
IP_FORWARDING_OID = ".1.3.6.1.2.1.4.1.0"  # ipForwarding (RFC 4293), which is 1 on a router
BIRD_DAEMON, BIRD_CLIENT = "bird", "birdc"
AS_NUMBER = 65000  # used by both ends of the internal BGP session
# addresses and ports of the session: other than 179, which the device may use
ROUTER_END, SPEAKER_END = ("127.0.0.1", 1179), ("127.0.0.2", 1180)


def make_snmp_agent_steps(facts: Facts, state_dir: str) -> tuple[list[Step], Check]:
    """Return the steps that start an SNMP agent, and a check that queries it."""
    for program, package in ((SNMP_AGENT, "snmpd"), (SNMP_CLIENT, "snmp")):
        facts.require_program(program, package, ", which SNMP needs")
    directory = f"{state_dir}/snmp"
    file, pid = f"{directory}/agent.conf", f"{directory}/agent.pid"
    # a socket file, because UDP queries would be connections in the device's table
    socket = f"unix:{directory}/agent.sock"
    text = (
        f"agentaddress {socket}\ncom2secunix v6t default v6t\ngroup v6t v2c v6t\n"
        'view all included .1\naccess v6t "" v2c noauth exact all none none\n'
    )
    query = f"{SNMP_CLIENT} -m '' -v 2c -c v6t -t 1 -r 0 -O qvU {socket} {IP_FORWARDING_OID}"
    start = (
        f"SNMP_PERSISTENT_DIR={directory} MIBS= {SNMP_AGENT} -C -c {file} -p {pid} -Lf /dev/null"
        f"; n=0; until {query} >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 25 ] || break; "
        "sleep 0.2; done"
    )
    return [
        steps.make_directory_step(directory, "a directory for the agent's files"),
        steps.make_config_file_step(file, text, "the SNMP agent's configuration"),
        steps.make_daemon_step(start, pid, SNMP_AGENT, "a separate SNMP agent"),
    ], Check(query, expect_text(1))


def make_bgp_speaker_steps(
    facts: Facts, state_dir: str, ip_version: int, net: str, next_hops: dict[str, tuple[str, str]]
) -> tuple[list[Step], DeviceChange]:
    """Return the steps that start two BIRD processes as BGP neighbors, and a change of a BGP route."""
    for program in (BIRD_DAEMON, BIRD_CLIENT):
        facts.require_program(program, "bird2", ", which BGP needs")
    family = f"ipv{ip_version}"
    parts = {
        "router": f"protocol kernel {{ {family} {{ import none; "
        'export where proto = "neighbour"; }; }\n'
        f"protocol bgp neighbour {{\n  {_format_session(ROUTER_END, SPEAKER_END)}\n"
        f"  {family} {{ import all; export none; }};\n}}\n",
        "speaker": "".join(
            f"protocol static {name} {{ disabled; {family}; route {net} via {host}; }}\n"
            for name, (host, _) in next_hops.items()
        )
        + f"protocol bgp neighbour {{\n  {_format_session(SPEAKER_END, ROUTER_END)}\n"
        f"  {family} {{ import none; export where source = RTS_STATIC; next hop keep; }};\n}}\n",
    }
    all_steps = [make_link_up_step("lo", "the speaker is reached through it")]
    for number, (role, text) in enumerate(parts.items(), 1):
        all_steps += _make_bird_steps(state_dir, role, number, family, text)
    show = f"ip -{ip_version} route show exact {net}"
    cli = f"{BIRD_CLIENT} -s {state_dir}/bgp-speaker.ctl"
    session = f"{cli} show protocols neighbour"
    expected = expect_words("neighbour BGP", "up", "Established")
    retry = "n=$((n+1)); [ $n -lt 150 ] || break; sleep 0.1"
    wait = f"n=0; until {session} | grep -q Established; do {retry}; done"
    all_steps.append(Step("true", "the BGP session", read=session, expected=expected, wait=wait))
    paths = {name: f"via {host} dev {port}" for name, (host, port) in next_hops.items()}
    first, second = next_hops

    def make_announce_command(name: str, other: str) -> str:
        pause = "n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1"
        wait = f"n=0; until {show} | grep -qF '{paths[name]}'; do {pause}; done"
        return f"{cli} enable {name} >/dev/null && {cli} disable {other} >/dev/null; {wait}"

    return all_steps, DeviceChange(
        "a route that BGP announces",
        add_command=make_announce_command(first, second),
        change_command=make_announce_command(second, first),
        remove_command=f"{cli} disable {first} >/dev/null 2>&1; {cli} disable {second} >/dev/null 2>&1; true",
        show_command=show,
        added_words=paths[first],
        changed_words=paths[second],
    )


def _format_session(local: tuple[str, int], remote: tuple[str, int]) -> str:
    return (
        f"local {local[0]} port {local[1]} as {AS_NUMBER}; "
        f"neighbor {remote[0]} port {remote[1]} as {AS_NUMBER}; "
        "connect delay time 1; connect retry time 1; error wait time 1, 2;"
    )


def _make_bird_steps(
    state_dir: str, role: str, router_number: int, family: str, protocols: str
) -> list[Step]:
    file, pid, socket = (f"{state_dir}/bgp-{role}.{kind}" for kind in ("conf", "pid", "ctl"))
    head = f"router id 192.0.2.{router_number};\nprotocol device {{}}\nprotocol direct {{ {family}; }}\n"
    start = f"{BIRD_DAEMON} -c {file} -s {socket} -P {pid}"
    stop = f"( {steps.make_process_stop_command(pid, BIRD_DAEMON)} ) && rm -f {socket}"
    return [
        steps.make_config_file_step(file, head + protocols, f"BIRD's configuration, {role}"),
        steps.make_daemon_step(start, pid, BIRD_DAEMON, f"BIRD, {role}", stop=stop),
    ]
