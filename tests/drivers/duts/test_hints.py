"""What a driver refuses ends with a command that works, wherever a parameter or an option is the remedy.

Every refusal in the drivers' modules is found in their sources: it is provoked here by a command whose
hint is then carried out as a dry run, or it says below why no command can be the remedy.
"""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from v6t.core.cli.hints import list_drivers_for
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import names as technologies
from v6t.drivers.duts import kinds
from v6t.drivers.duts.registry import list_driver_names as drivers
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.siit import Siit
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error

from .support import run_shell

KINDS = Path(next(iter(kinds.__path__)))


@dataclass(frozen=True)
class Refusal:
    """A ``UsageError`` in a driver's source, or what :func:`make_unsupported_error` makes one of.

    Attributes:
        place: file and line.
        text: of its message, without what is filled in.
        helped: it has parameters or options.
    """

    place: str
    text: str
    helped: bool


def refusals():
    """All of them."""
    for path in sorted(KINDS.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = [
            n for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "problem"
        ]
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "UsageError",
                "make_unsupported_error",
            ):
                message = node.args[0]
                if isinstance(message, ast.Name):
                    message = max(
                        (n for n in named if n.lineno < node.lineno), key=lambda n: n.lineno
                    )
                text = "".join(
                    part.value
                    for part in ast.walk(message)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
                helped = any(k.arg in ("params", "dut_params") for k in node.keywords)
                yield Refusal(f"{path.relative_to(KINDS)}:{node.lineno}", text, helped)


ALL = list(refusals())
EAM = "eam=[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/64}, {ipv4: 198.19.0.0/24, ipv6: 2001:2:0:1000::/64}]"
HINTS = {
    "AAAA records with a prefix of": ("dns64", "knot-resolver", "prefix=2001:db8:64::/64"),
    "a prefix of /96, not": ("siit", "tundra", "prefix=2001:db8::/64"),
    "'s CLAT translates one address": (
        "clat", "tundra", "clat_ipv4=198.18.0.0/24", "clat_ipv6=2001:2:0:2::/120",
    ),
    "supports only the interface identifier of RFC 7597": ("mape-br", "vpp", "iid_format=draft"),
    "drops packets of a CE with an IPv4 prefix": ("mapt-ce", "nat46", "ea_len=4", "ce_psid=0", "ce_ipv4=192.0.2.176"),
    "cannot be configured: ": ("siit", "nat46", "lowest_ipv6_mtu=1400"),
    "nat46 maps prefixes with equally many": ("siit", "nat46", EAM),
    "TAYGA maps prefixes with equally many": ("siit", "tayga", EAM),
    "TAYGA does not translate": ("clat", "tayga", "plat_prefix=64:ff9b::/96"),
    "does not take the prefix": (
        "nat64", "tayga-nftables", "prefix=64:ff9b:1::/48", "dut:version=0.9.2-8",
    ),
    "the UDP timeout of Jool must be at least": ("nat64", "jool", "udp_timeout_s=60"),
    "(dut.options.sessions), but the test opens": ("nat44", "nftables", "dut:sessions=500"),
    "does not support workers": ("siit", "tayga", "dut:workers=2", "dut:version=0.9.2-8"),
    "do not fit TAYGA's dynamic pool": (
        "nat64", "tayga-nftables", "initiator_count=300", "enumerate_ips=3", "responder_count=2",
        "initiator_ports={min: 4096, max: 4196}",
    ),
    "dut.options.dynamic_pool: ": ("nat64", "tayga-nftables", "dut:dynamic_pool=everything"),
    ", which the test uses": ("nat64", "tayga-nftables", "responder_ipv4=192.168.255.77"),
    "is too small for a client": ("nat64", "tayga-nftables", "dut:dynamic_pool=192.168.255.0/31"),
    "this device cannot configure": ("nat44", "iptables", "session_limit=200000"),
    "Tundra does not support explicit mappings": (
        "siit", "tundra", "eam=[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/120}]",
    ),
    "cannot forget the AFTR's tunnel address": ("dslite-aftr", "vpp", "dut:start=false"),
    "sessions of a B4 and drops the oldest": ("dslite-aftr", "vpp", "initiator_count=3"),
    "AFTR cannot translate to": ("dslite-aftr", "vpp", "pool_first=192.168.19.1"),
    "loses one direction": ("mapt-br", "vpp", "dmr=64:ff9b::/96"),
    "is a multiple of 8": ("mapt-br", "vpp", "rule_ipv6=2001:db8:ce::/51"),
    "is not supported": ("mape-br", "vpp", "dut:version=20.05"),
    "NAT gives out ports": ("nat44", "vpp", "pool_ports={min: 2048, max: 65535}"),
    "room for ten sessions in each bucket": ("nat64", "vpp", "session_limit=200005"),
}  # fmt: skip
"""Technology, driver, and what is wrong with it, by some words of the refusal; options begin with ``dut:``."""
UNREACHED = {
    "does not support EA bits beyond bit 64": "the technology refuses such rules before",
    "nat46 needs mappings of hosts on both sides": "the technologies always have a prefix",
    "NAT64 needs a prefix": "the technology always has one",
}
"""They have parameters all the same, for technologies of somebody else."""
NO_COMMAND = {
    "a VPP domain has one , and": "another driver, or other addresses",
    "without EA bits has": "another rule, or another device",
    "is not within": "guards the technology's own arithmetic",
    "the test uses all of": "any of many parameters may be given another value",
    "are in use: nothing is left to be added": "any of many parameters may be given another value",
    "a tunnel has one other end": "another driver is the remedy",
    "does not map ": "any of many parameters may be given another value",
    ": it drops ": "any of many parameters may be given another value",
    "configures PowerDNS Recursor": "another release is to be installed",
    "no address and no port set to check": "checks is asked of one part; its option is to be left out",
    "has no MAP-T; the 4.2.0": "another release is to be installed",
    "has no NPTv6 that could be checked": "another release is to be installed",
    "finds the rule of a MAP-T packet by its DMR": "rules of a file are the user's own, or another release",
    "has no public IPv": "guards the technology's own settings",
    "the public addresses are not consecutive": "guards the technology's own settings",
    "the pool does not contain  blocks of": "the technology refuses so many before, with its own hint",
    "no read-back of dut.options.": "the user's own lines",
    "the lab does not contain a device with a vendor": "a testbed file is needed",
    "how is the  device reached?": "a testbed file is needed",
    "has no built-in configuration": "a testbed file is needed",
    "with a command line stands in the lab": "a testbed file is needed",
    "unknown placeholder": "the user's own lines",
    "'': .200": "the user's own line, before what is wrong with it",
    "cannot be combined in one line": "the user's own lines",
    "unknown form '": "the user's own lines",
    "does not have this form: ": "the user's own lines",
    "is not typed: ": "the user's own lines",
    "lacks a prompt_pattern": "the user's own file",
    "unknown scrapli platform": "the hint lists what there is",
    "the platform  cannot be read: ": "the user's own file",
    "does not configure VLANs": "links are the testbed file's",
    "the lwAFTR needs an IPv": "guards the technology's own settings",
}
"""Why no parameter is the remedy."""


def command_of(technology, driver, wrong):
    words = ["--plugin", technology, "--dut", driver]
    for text in wrong:
        flag, own = ("--set-dut", text[4:]) if text.startswith("dut:") else ("--set", text)
        words += [flag, own]
    return ["run", "--dry-run", *words]


def about(refusal, words):
    return words in refusal.text or (
        words.startswith("dut.options.dynamic_pool: ") and refusal.text == words
    )


def test_every_refusal_has_a_hint_that_is_tried_or_a_reason():
    for refusal in ALL:
        tried = [w for w in (*HINTS, *UNREACHED) if about(refusal, w)]
        prose = [w for w in NO_COMMAND if w in refusal.text]
        if refusal.helped:
            assert tried, f"{refusal.place}: {refusal.text}: nobody tries its hint"
        else:
            assert prose, f"{refusal.place}: {refusal.text}: what command is the remedy?"
    for words in (*HINTS, *UNREACHED, *NO_COMMAND):
        assert any(about(r, words) for r in ALL), f"nobody says '{words}' any more"


@pytest.mark.parametrize("says", HINTS)
def test_the_hint_is_a_command_that_works(says):
    technology, driver, *wrong = HINTS[says]
    refused = v6t(*command_of(technology, driver, wrong))
    assert refused.status == 2, refused
    assert says.removeprefix("dut.options.dynamic_pool: ") in refused.err
    hint = refused.err.partition("try: v6t ")[2].strip()
    done = v6t(*shlex.split(hint))
    assert done.status == 0, (hint, done.err)


@pytest.mark.parametrize("technology", technologies())
def test_who_cannot_be_a_technology_names_those_that_can_and_a_command_that_works(technology):
    """Over the whole table; the commands differ by the technology alone."""
    commands = set()
    for driver in drivers():
        able = list_technologies(driver)
        if not able or technology in able:
            continue
        refused = v6t(*command_of(technology, driver, []))
        assert refused.status == 2, refused
        if f"the {driver} driver cannot make a device for {technology}" not in refused.err:
            continue
        if "try: v6t " not in refused.err:  # of a part that is no plugin: a command in words
            assert "`v6t run --plugin ipv4aas" in refused.err, refused.err
            continue
        named = refused.err.partition(f"{technology} is made by: ")[2].partition(";")[0].split(", ")
        assert set(named) - {"reference"} == set(list_drivers_for(technology)) - {"reference"}
        commands.add(refused.err.partition("try: v6t ")[2].strip())
    assert len(commands) == 1, commands
    hint = shlex.split(commands.pop())
    assert hint[-1] in named
    done = v6t(*hint)
    assert done.status == 0, (hint, done.err)


def test_so_does_the_reference_device_where_connections_are_kept():
    refused = v6t(*command_of("nat64", "reference", []))
    assert refused.code == "missing-reference"
    assert refused.err.strip().endswith("v6t run --dry-run --plugin nat64 --dut tayga-nftables")


def test_options_of_the_driver_that_cannot_are_left_out_and_a_testbed_gets_no_command(tmp_path):
    words = ("--driver=vpp", "--set-dut", "workers=2", "--set", "prefix=2001:db8::/96")
    refused = v6t("run", "--dry-run", "--plugin", "siit", *words)
    hint = shlex.split(refused.err.partition("try: v6t ")[2])
    assert hint[:-1] == ["run", "--dry-run", "--plugin", "siit", "--set", words[-1], "--dut"]
    plan = v6t("dut", "plan", "--plugin", "ipv6-router", "--driver", "jool").err
    assert "by: linux-router, " in plan  # there is no plan of the reference device
    assert v6t(*shlex.split(plan.partition("try: v6t ")[2])).status == 0
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: vpp}")
    refused = v6t("run", "--dry-run", "--plugin", "siit", "--testbed", bed)
    assert refused.code == "unsupported-technology"
    assert "try: " not in refused.err


def test_a_part_of_a_chain_is_not_told_to_replace_the_whole():
    refused = v6t(*command_of("ipv4aas", "chain", ["dut:parts.clat.driver=nftables"]))
    assert refused.code == "unsupported-technology"
    assert "is made by" not in refused.err


def test_a_device_without_nat46s_module_is_told_where_it_comes_from():
    driver = make_driver("nat46", {"module": "/nowhere/nat46.ko"})
    intent = Siit().dut_intent()
    facts = driver.make_example_facts(intent)
    driver.check_device(intent, facts)
    lacking = replace(facts, sections={**facts.sections, "module": "none\n"})
    with expect_error("missing-kernel-module", mentions="nowhere/nat46.ko") as told:
        driver.check_device(intent, lacking)
    assert "https://github.com/" in told.value.hint
    assert "--set-dut module=FILE" in told.value.hint
    v6t_takes_it = v6t(*command_of("siit", "nat46", ["dut:module=/nowhere/nat46.ko"]))
    assert v6t_takes_it.status == 0, v6t_takes_it.err
    asked = run_shell(driver.get_survey_commands()["module"])
    assert asked.stdout in ("none\n", "/sys/module/nat46\n")


def test_what_is_no_openbsd_says_how_one_is_reached():
    with expect_error("wrong-system", mentions="6.1") as told:
        make_driver("openbsd-pf", {}).parse_facts({"system": "Linux 6.1\n"})
    assert "dut.options.ssh.host" in told.value.hint


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "prefix=64:ff9b::/96"], "clat: TAYGA does not translate"),
        (
            [
                *("--set-dut", "parts.clat.options.workers=2"),
                *("--set-dut", "parts.clat.options.version=0.9.2-8"),
            ],
            "clat: TAYGA",
        ),
        (
            ["--set-dut", "parts.plat.options.dynamic_pool=192.168.255.0/31"],
            "plat: dut.options.dynamic_pool",
        ),
        (["--variant", "map-t", "--set-dut", "parts.br.driver=vpp"], "br: VPP"),
    ],
)
def test_so_is_that_of_a_part_of_a_chain(words, says):
    refused = v6t("run", "--dry-run", "--plugin", "ipv4aas", *words)
    assert refused.status == 2, refused
    assert says in refused.err
    hint = refused.err.partition("try: v6t ")[2].strip()
    done = v6t(*shlex.split(hint))
    assert done.status == 0, (hint, done.err)
