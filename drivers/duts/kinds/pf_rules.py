"""OpenBSD PF's translating rules and states, and the output of pfctl."""

from __future__ import annotations

import re
from collections.abc import Mapping

from v6t.drivers.device import MAX_OWN_CONNECTIONS
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Expectation, Intent
from v6t.drivers.duts.readings import LossReason, make_sum_parser
from v6t.intent.families import Nat64Config

RELOAD_TRIES = 60  # attempts to load the rules, one per second
# port range that PF omits when it lists a rule (``PF_NAT_PROXY_PORT_LOW``, ``_HIGH``)
DEFAULT_NAT_PORTS = (50001, 65535)
PURGE_INTERVAL_S = 10  # interval at which PF frees states that are marked for deletion
# prints the definitions of the tables that pfctl has created
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
"""PF frees marked states gradually, many of them after several intervals. If a few remain and no more are
freed, they belong to others whom the rule translates, too. Without the wait, too few connections would be
counted."""
LIST_RULES_COMMAND = "pfctl -sr | sed 's/<__automatic_[0-9a-f]*_/<__automatic_/g'"
# name of a table that pfctl creates for a list of addresses; it contains a random number
AUTOMATIC_TABLE = re.compile(r"<__automatic_\w+>")
# loss reasons by PF's drop reasons (``PFRES_NAMES`` in pfvar.h); ``translate``: no free port
LOSS_REASONS = {
    **dict.fromkeys(("memory", "state_limit", "src_limit", "translate"), LossReason.TABLE_FULL),
    "state_insert": LossReason.NO_ENTRY,
    "congestion": LossReason.QUEUE,
    **dict.fromkeys(
        ("bad_offset", "fragment", "short", "normalize", "bad_timestamp", "ip_option", "proto_cksum",
         "state_mismatch", "no_route"), LossReason.RULE),
}  # fmt: skip
# telemetry names of the rows of ``pfctl -si``
_FIGURE_NAMES = {
    "current entries": "sessions",
    **{name.replace("_", "-"): name for name in LOSS_REASONS},
}


def parse_info(text: str) -> Mapping[str, float]:
    """Parse ``pfctl -si``: the number of states, and dropped packets by reason."""
    rows = re.findall(r"^[ \t]+([a-z][a-z -]*?)[ \t]{2,}(\d+)", text, re.MULTILINE)
    return {_FIGURE_NAMES[name]: float(value) for name, value in rows if name in _FIGURE_NAMES}


parse_translated_states = make_sum_parser(
    r"^\S.* (?:nat-to|af-to) .*\n\s+\[ Evaluations: .* States: (\d+)", "sessions"
)
"""Counts the states of all rules of ``pfctl -vsr`` that translate, also those marked and not freed yet."""
# parses ``pfctl -sm``: the limit of states
parse_limits = make_sum_parser(r"^states\s+hard limit\s+(\d+)", "states")


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


def list_translating_rules(intent: Intent, options: DutOptions) -> list[tuple[str, str]]:
    """Return the match and the action keyword, such as ``nat-to``, of each translating rule."""
    configuration = intent.configuration
    if isinstance(configuration, Nat64Config):
        match = f"pass in on {options.left} inet6 from any to {configuration.prefix}"
        return [(match, "af-to inet from")]
    nets = nat.get_pool(intent).client_networks
    return [(f"match out on {options.right} inet from {net} to any", "nat-to") for net in nets]


def expect_rules(intent: Intent, options: DutOptions) -> Expectation:
    """Expect ``pfctl -sr`` to list each translating rule (pfctl_parser.c, print_rule).

    pfctl prints a host without prefix length, flags that the file does not contain, several addresses as a
    list or as an automatic table, and no ports where PF chooses them.
    """
    pool, expected_rules = nat.get_pool(intent), list_translating_rules(intent, options)
    public = re.escape(pool.addresses[0])
    if len(pool.addresses) > 1:
        public = rf"(?:\{{[^}}]*\}}|{AUTOMATIC_TABLE.pattern})"
    ports = f" port {pool.first_port}" + (
        f":{pool.last_port}" if pool.last_port > pool.first_port else ""
    )
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

    return Expectation(" and ".join(f"'{m} {a}'" for m, a in expected_rules), describe_missing_rule)


def make_kill_command(intent: Intent) -> str:
    """Return the command that marks the test's states for deletion, but no states of an operator."""
    nets = list(nat.get_pool(intent).client_networks)
    for side in (intent.left, intent.right):
        nets += [*(str(address.network) for address in side.addresses), *map(str, side.routes)]
    return " && ".join(f"pfctl -q -k {net}" for net in dict.fromkeys(nets))


def make_reload_command(intent: Intent) -> str:
    """Return the command that reloads ``/etc/pf.conf`` as soon as its state limit permits."""
    return (
        f"({make_kill_command(intent)}; n=0; until pfctl -q -f /etc/pf.conf; do n=$((n+1)); "
        f"[ $n -lt {RELOAD_TRIES} ] || exit 1; sleep 1; done)"
    )
