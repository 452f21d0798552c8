"""OpenBSD PF: NAT64 with af-to, NAT44 with nat-to."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field
from v6t.base.errors import DutError
from v6t.drivers.device import MAX_OWN_CONNECTIONS
from v6t.drivers.duts import management_path, plan
from v6t.drivers.duts.driver import Driver, check_interfaces, make_unsupported_error, require_root
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.netfilter import conntrack, nat
from v6t.drivers.duts.options import DirectoryPath, DutOptions
from v6t.drivers.duts.os import openbsd
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.drivers.duts.steps import make_config_file_step
from v6t.intent.families import Nat44Config, Nat64Config, NatConfig, RouterConfig

NAT44_STATES, NAT64_STATES = 2, 1
"""States of a connection: one on the inside and one on the outside interface; packets that ``af-to`` has
translated are not filtered again."""
STATE_LIMIT_FACTOR = 1.05  # ratio of the state limit to the required number of states
REUSED_PORT_NOTE = "af-to may give two connections one public port (seen in 7.6), which v6t reports"
OPEN_RULES_NOTE = (
    "until the rollback, its rules replace all others: no interface blocks packets, not even the "
    "management interface, and other NAT stops"
)
RELOAD_TRIES = 60  # attempts to load the rules, one per second
DEFAULT_NAT_PORTS = (50001, 65535)  # PF omits them in rules (``PF_NAT_PROXY_PORT_LOW``)
PURGE_INTERVAL_S = 10  # interval at which PF frees states that are marked for deletion
LIST_TABLES_COMMAND = r"""\
for t in $(pfctl -sr | grep -o '__automatic_[0-9a-f_]*' | sort -u); do
echo 'table <'"$t"'> const {' $(pfctl -t "$t" -T show) '}'
done
"""
AWAIT_PURGE_COMMAND = f"""\
n=0; m=0; o=; while s=0; for x in $(pfctl -vsr | grep -A1 -e ' nat-to ' -e ' af-to ' |
grep -o 'States: *[0-9]*' | cut -d: -f2); do s=$((s+x)); done; [ $s -gt 0 ]; do
if [ "$s" = "$o" ]; then m=$((m+1)); else m=0; o=$s; fi
[ $m -lt {3 * PURGE_INTERVAL_S} ] || [ $s -gt {MAX_OWN_CONNECTIONS} ] || break
n=$((n+1)); [ $n -lt 240 ] || break; sleep 1; done"""
"""PF frees marked states gradually, many of them after several intervals. If a few remain and no
more are freed, they belong to other hosts that the rule translates. Without the wait, too few
connections would be counted."""
LIST_RULES_COMMAND = "pfctl -sr | sed 's/<__automatic_[0-9a-f]*_/<__automatic_/g'"
AUTOMATIC_TABLE = re.compile(r"<__automatic_\w+>")  # of a list; its name has a random number
# loss reasons by PF's drop reasons (``PFRES_NAMES`` in pfvar.h); ``translate``: no free port
LOSS_REASONS = {
    **dict.fromkeys(("memory", "state_limit", "src_limit", "translate"), LossReason.TABLE_FULL),
    "state_insert": LossReason.NO_ENTRY,
    "congestion": LossReason.QUEUE,
    **dict.fromkeys(
        ("bad_offset", "fragment", "short", "normalize", "bad_timestamp", "ip_option", "proto_cksum",
         "state_mismatch", "no_route"), LossReason.RULE),
}  # fmt: skip


class OpenBsdOptions(DutOptions):
    """Options of OpenBSD."""

    state_dir: DirectoryPath = "/var/run/v6t"
    """Directory on the device for lock, undo record and configuration files, preferably on a tmpfs."""
    neighbours: Literal["static", "resolved"] = "static"
    """How the device resolves the tester's addresses: static entries, or neighbor discovery and ARP."""
    flush: Literal["reboot", "purge"] = "reboot"
    """Empty the states by a reboot, or wait until PF has purged them, which is a deviation from RFC 9693;
    ``pfctl -F states`` only marks them."""
    sessions: int = Field(default=0, ge=0, le=1 << 29)
    """States that PF must hold; 0: as many as the technology requires."""
    timeout_s: int = Field(default=3600, ge=1, le=864_000)
    """Timeout of UDP states, longer than any test [s]."""
    reboot_deadline_s: float = Field(default=600.0, gt=0, le=7200)
    """Time limit of a reboot until the next login [s]."""


class OpenBsdPf(Driver):
    """Driver of OpenBSD with PF, configured by shell lines."""

    name = "openbsd-pf"
    title = "OpenBSD PF: NAT64 (af-to) and NAT44 (nat-to)"
    supported_configurations = (Nat44Config, Nat64Config, RouterConfig)
    test_status = "measured, emptied and restored with real frames (7.6 to 7.7, no release; QEMU)"
    versions = ("7.6",)
    options_model = OpenBsdOptions

    def get_timeout_s(self, intent: plan.Intent) -> float | None:
        return float(self.options.timeout_s)

    def get_survey_commands(self) -> Mapping[str, str]:
        return {
            "system": "uname -sr",
            "boot": "ps -o lstart= -p 1",  # kern.boottime moves when the clock is stepped
            "user": "id -u",
            "version": "uname -r",
            "client": management_path.CLIENT_COMMAND,
            "way": 'set -- $SSH_CONNECTION; [ -z "$1" ] || route -n get "$1"',
            "links": "ifconfig -A",
            "default4": "route -n get -inet default",
            "default6": "route -n get -inet6 default",
            "rules": "pfctl -sr",
            "tables": LIST_TABLES_COMMAND,
            "file": "pfctl -nvf /etc/pf.conf",
            "info": "pfctl -si",
        }

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        system = sections.get("system", "")
        if not system.startswith("OpenBSD"):
            problem = f"the device does not run OpenBSD: uname prints {plan.shorten_output(system)}"
            hint = "the lab's devices run Linux: give dut.options.ssh.host in a testbed file"
            raise DutError(problem, hint, code="wrong-system")
        interfaces, addresses = openbsd.parse_ifconfig(sections.get("links", ""))
        client = sections.get("client", "")
        words = client.split()
        server, _, zone = (words[2] if len(words) > 2 else "").partition("%")
        managed = {
            name
            for name, own in addresses.items()
            if server in [str(a.ip) for a in own] and zone in ("", name)
        }
        route = openbsd.convert_route(words[0], sections.get("way", "")) if words else ""
        path = management_path.parse_management_path(client, route, sorted(managed))
        routes = sections.get("default4", "") + "\n" + sections.get("default6", "")
        ports = re.findall(r"^\s*interface: (\S+)", routes, re.MULTILINE)
        return Facts(
            system=system,
            version=sections.get("version", "").strip(),
            boot_id=sections.get("boot", "").strip(),
            is_root=sections.get("user", "").strip() == "0",
            interfaces=interfaces,
            management_interfaces=frozenset(managed),
            management_path=path,
            default_route_interfaces=frozenset(ports),
            sections=dict(sections),
        )

    def make_example_facts(self, intent: plan.Intent) -> Facts:
        facts = self.assume_facts(intent, "OpenBSD")
        return replace(facts, system=f"OpenBSD {facts.version}")

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        require_root(facts)
        check_interfaces(self.options, intent, facts)
        section = facts.sections.get
        _, addresses = openbsd.parse_ifconfig(section("links", ""))
        for side in ("left", "right"):
            port = getattr(self.options, side)
            openbsd.check_prefix_lengths(getattr(intent, side), port, addresses.get(port, ()))
        loaded = parse_rules(section("rules", ""), section("tables", ""))
        if loaded != parse_rules(section("file", ""), section("file", "")):
            problem = "the loaded PF rules differ from /etc/pf.conf and could not be restored"
            hint = "save them there, or load the file with pfctl -f /etc/pf.conf"
            raise DutError(problem, hint, code="device-not-restored")
        if any(getattr(intent.links, s).vlan for s in ("left", "right")):
            problem = "this driver does not configure VLANs on OpenBSD"
            raise make_unsupported_error(problem, "use untagged links")

    def plan_configuration(self, intent: plan.Intent, facts: Facts) -> plan.Plan:
        steps = [openbsd.make_forwarding_step()]
        for side in ("left", "right"):
            side_intent = getattr(intent, side)
            if self.options.neighbours == "resolved":
                side_intent = replace(side_intent, neighbors={})
            port = getattr(self.options, side)
            steps.append(openbsd.make_mtu_step(port, getattr(intent.links, side).mtu))
            steps += openbsd.make_side_steps(side_intent, port)
        notes = ["PF hashes receive queues by addresses only: many addresses for many cores"]
        if not isinstance(intent.configuration, NatConfig):
            notes.append("PF is not changed: if it is on, its rules and states are also measured")
            return plan.Plan(self.name, facts.version, tuple(steps), notes=tuple(notes))
        notes.append(OPEN_RULES_NOTE)
        if isinstance(intent.configuration, Nat64Config):
            notes.append(REUSED_PORT_NOTE)
        if self.options.flush == "purge":
            notes.append("DEVIATION: states are purged in place of a reboot (RFC 9693)")
        steps += self._make_rule_steps(intent)
        flush = (self._make_flush_step(intent),)
        return plan.Plan(self.name, facts.version, tuple(steps), flush, notes=tuple(notes))

    def get_header_profile(self, intent: plan.Intent) -> HeaderProfile:
        if not isinstance(intent.configuration, Nat64Config):
            return HeaderProfile()
        return HeaderProfile(df="set", why="af-to sets DF in packets of any size")

    def get_session_reading(self, intent: plan.Intent) -> Reading | None:
        """Return the reading that counts the states of translating rules; None without NAT."""
        has_states = isinstance(intent.configuration, NatConfig)
        return Reading("pfctl -vsr", parse_translated_states) if has_states else None

    def get_telemetry_readings(self, intent: plan.Intent) -> Mapping[str, Reading]:
        states = "states, and packets dropped, by PF's reasons; `translate`: no free port"
        ticks = "ticks, of a single core under its name, of several cores their mean"
        return {
            "cpu": Reading("sysctl hw.ncpuonline kern.cp_time", openbsd.parse_cpu_ticks, ticks),
            "pf": Reading("pfctl -si", parse_info, states, LOSS_REASONS),
            "table": Reading("pfctl -si; pfctl -sm", parse_occupancy, "states, and PF's limit"),
        }

    def get_table_limits_reading(self, intent: plan.Intent) -> Reading | None:
        has_states = isinstance(intent.configuration, NatConfig)
        return Reading("pfctl -sm", parse_limits) if has_states else None

    def _make_rule_steps(self, intent: plan.Intent) -> list[plan.Step]:
        file, text = f"{self.options.state_dir}/pf.conf", format_ruleset(intent, self.options)
        return [
            make_config_file_step(file, text, "the rules, in place of /etc/pf.conf"),
            plan.Step(
                f"pfctl -nf {file} && pfctl -q -f {file}",
                "translate the clients' connections",
                read=LIST_RULES_COMMAND,
                expected=expect_rules(intent, self.options),
                undo=make_reload_command(intent),
                deadline_s=120.0,
            ),
            plan.Step(
                "pfctl -q -e 2>/dev/null || true",
                "PF is on",
                read="pfctl -si | sed -n 's/^\\(Status: [A-Za-z]*\\).*/\\1/p'",
                expected=plan.expect_text("Status: Enabled"),
                undo="case {old} in *Disabled*) pfctl -q -d;; esac; true",
            ),
        ]

    def _make_flush_step(self, intent: plan.Intent) -> plan.Step:
        if self.options.flush == "reboot":
            why = "an empty state table: flushing only marks states"
            return plan.Step("reboot", why, reboots=True, deadline_s=self.options.reboot_deadline_s)
        goal = "almost no states of the translating rule"
        few = plan.expect_max_sessions(parse_translated_states, "state", goal, MAX_OWN_CONNECTIONS)
        why = "no state of an earlier trial is left, once the purge has run"
        command = f"{make_kill_command(intent)} && {AWAIT_PURGE_COMMAND}"
        return plan.Step(command, why, proof=plan.Check("pfctl -vsr", few), deadline_s=300.0)


def format_ruleset(intent: plan.Intent, options: OpenBsdOptions) -> str:
    """Return the text of ``pf.conf`` with timeouts longer than any test and explicit ports."""
    pool = nat.get_pool(intent)
    required_states = conntrack.get_required_sessions(options.sessions, intent)
    states = NAT64_STATES if isinstance(intent.configuration, Nat64Config) else NAT44_STATES
    limit = max(100_000, int(required_states * STATE_LIMIT_FACTOR) * states)
    t = options.timeout_s
    lines = [
        f"set limit states {limit}",
        f"set timeout {{ interval {PURGE_INTERVAL_S}, adaptive.start 0, adaptive.end 0, "
        f"udp.first {t}, udp.single {t}, udp.multiple {t} }}",
        "set skip on lo",
        "pass",
    ]
    several = "{ " + ", ".join(pool.addresses) + " }"
    public = several if len(pool.addresses) > 1 else pool.addresses[0]
    lines += [
        f"{match} {action} {public} port {pool.first_port}:{pool.last_port}"
        for match, action in list_translating_rules(intent, options)
    ]
    return "\n".join(lines) + "\n"


def parse_info(text: str) -> Mapping[str, float]:
    """Parse ``pfctl -si``: the number of states, and dropped packets by reason."""
    rows = dict(re.findall(r"^[ \t]+([a-z][a-z -]*?)[ \t]{2,}(\d+)", text, re.MULTILINE))
    names = {"current entries": "sessions"} | {n.replace("_", "-"): n for n in LOSS_REASONS}
    return {name: float(rows[row]) for row, name in names.items() if row in rows}


parse_translated_states = make_sum_parser(
    r"^\S.* (?:nat-to|af-to) .*\n\s+\[ Evaluations: .* States: (\d+)", "sessions"
)
"""Counts the states of all rules of ``pfctl -vsr`` that translate, also those marked and not freed yet."""
parse_limits = make_sum_parser(r"^states\s+hard limit\s+(\d+)", "states")  # of ``pfctl -sm``


def parse_rules(text: str, tables: str) -> list[str]:
    """Return the rules of ``pfctl -sr`` or ``-nvf``, with lists in place of automatic tables."""
    table_contents = {
        name: "{ " + " ".join(sorted(words.split())) + " }"
        for name, words in re.findall(r"^table (<__automatic_\w+>) const \{(.*)\}", tables, re.M)
    }
    own = re.split(r"^Loading anchor ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = (" ".join(re.sub(r"^@\d+ ", "", line).split()) for line in own.splitlines())
    return [
        AUTOMATIC_TABLE.sub(lambda match: table_contents.get(match.group(), "<a table>"), line)
        for line in lines
        if line.split(" ")[0] in ("pass", "block", "match", "anchor")
    ]


def parse_occupancy(text: str) -> Mapping[str, float]:
    """Parse ``pfctl -si; pfctl -sm``: ``used`` and ``limit`` of the state table."""
    used, limit = parse_info(text).get("sessions"), parse_limits(text).get("states")
    return {"used": used, "limit": limit} if used is not None and limit is not None else {}


def list_translating_rules(intent: plan.Intent, options: DutOptions) -> list[tuple[str, str]]:
    """Return the match and the action keyword, such as ``nat-to``, of each translating rule."""
    configuration = intent.configuration
    if isinstance(configuration, Nat64Config):
        match = f"pass in on {options.left} inet6 from any to {configuration.prefix}"
        return [(match, "af-to inet from")]
    nets = nat.get_pool(intent).client_networks
    return [(f"match out on {options.right} inet from {net} to any", "nat-to") for net in nets]


def expect_rules(intent: plan.Intent, options: DutOptions) -> plan.Expectation:
    """Expect ``pfctl -sr`` to list each translating rule (pfctl_parser.c, print_rule).

    pfctl prints a host without prefix length, flags that the file does not contain, several addresses as a
    list or as an automatic table, and no ports where PF chooses them.
    """
    pool, expected_rules = nat.get_pool(intent), list_translating_rules(intent, options)
    public = re.escape(pool.addresses[0])
    if len(pool.addresses) > 1:
        public = rf"(?:\{{[^}}]*\}}|{AUTOMATIC_TABLE.pattern})"
    last = f":{pool.last_port}" if pool.last_port > pool.first_port else ""
    ports = f" port {pool.first_port}{last}"
    ports = rf"(?:{ports})?" if (pool.first_port, pool.last_port) == DEFAULT_NAT_PORTS else ports

    def describe_missing_rule(output: str) -> str | None:
        lines = [" ".join(line.split()) for line in output.splitlines()]
        for match, action in expected_rules:
            shown_match = re.sub(r"(/32|/128)(?= )", "", f"{match} ").strip()
            pattern = re.compile(
                rf"{re.escape(shown_match)}(?: flags S/SA)? {action} {public}{ports}(?: round-robin)?"
            )
            if not any(map(pattern.fullmatch, lines)):
                return f"no rule is '{match} {action} ...'"
        return None

    description = " and ".join(f"'{match} {action}'" for match, action in expected_rules)
    return plan.Expectation(description, describe_missing_rule)


def make_kill_command(intent: plan.Intent) -> str:
    """Return the command that marks the test's states for deletion, but no states of an operator."""
    nets = list(nat.get_pool(intent).client_networks)
    for side in (intent.left, intent.right):
        nets += [*(str(address.network) for address in side.addresses), *map(str, side.routes)]
    return " && ".join(f"pfctl -q -k {net}" for net in dict.fromkeys(nets))


def make_reload_command(intent: plan.Intent) -> str:
    """Return the command that reloads ``/etc/pf.conf`` as soon as its state limit permits."""
    return (
        f"({make_kill_command(intent)}; n=0; until pfctl -q -f /etc/pf.conf; do n=$((n+1)); "
        f"[ $n -lt {RELOAD_TRIES} ] || exit 1; sleep 1; done)"
    )
