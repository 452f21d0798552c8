"""``v6t audit``: the command, its files and exit statuses, suites of other distributions."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from v6t.analysis.records.audit import UNTOLD, Audit, audit_from
from v6t.analysis.report.audit import document, to_junit, verdict
from v6t.analysis.report.html import to_html
from v6t.analysis.sheet import Sheet
from v6t.base.errors import DutError, UsageError
from v6t.core.audit import auditing, suites
from v6t.core.audit.auditing import CAPTURE, FILES
from v6t.core.audit.device import Listening, ProbedDevice
from v6t.core.cli.tables import print_table
from v6t.core.config.bound import BoundRun, bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.rundir import CONFIG
from v6t.plugins.clauses.base import CannotBeDone, Clause, Exchange, Frame, Judgement, Send
from v6t.plugins.clauses.carry import TRIES, carry_out
from v6t.tests.core.support import v6t

WRONG = [
    {"ipv4": "198.18.0.0/24", "ipv6": "2001:2:0:77::/120"},
    {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"},
]
"""A table that the device alone believes in."""
CABLED = """
import subprocess, sys, threading
from multiprocessing import Pipe
from pathlib import Path

for name in ("all", "default"):
    Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
for ours, theirs in (("one", "left"), ("two", "right")):
    subprocess.run(["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs], check=True)
    for name in (ours, theirs):
        subprocess.run(["ip", "link", "set", name, "arp", "off", "up"], check=True)
from v6t.core.cli import main
from v6t.drivers.lab.setup import frame_octets
from v6t.drivers.lab.whole_device import WholeDut
from v6t.plugins.siit.siit import Siit

dut = WholeDut("left", "right", frame_octets(Siit().links), Siit().whole_device())
_, there = Pipe()
threading.Thread(target=dut.idle, args=(there,), daemon=True).start()
main.main(["audit", "--plugin", "siit", "--interfaces", "one,two", "--no-variants", *sys.argv[1:]])
"""
"""A device at the other ends of two interfaces, in a namespace that the caller made."""
FOREIGN = """
from v6t.plugins.clauses.base import Clause, Suite, conforms

def _exchange():
    yield from ()
    return conforms("nothing", "nothing")

class Mine(Suite):
    name = "mine"
    title = "a suite of another distribution"

    def clauses(self, technology):
        return [Clause("mine-1", "RFC 1", "1", "MAY", "it is there", _exchange)]
"""


def finding(name: str, level: str, said: str, **more: Any) -> dict[str, Any]:
    return {
        **{"clause": name, "rfc": "RFC 7915", "section": "5.1", "level": level, "title": "it does"},
        **{"variant": "", "verdict": said, "sent": "left: a packet", "expected": "TTL 60"},
        **{"got": "TTL <58>\x07", "tries": 3},
        "frames": [{"side": "left", "sent": True, "octets": "00ff41", "number": 1}],
        **more,
    }


def audit(*findings: dict[str, Any]) -> Audit:
    return audit_from(
        {
            **{
                "schema": "v6t-audit/1",
                "version": "1",
                "source_commit": None,
                "made": "2026-01-01",
            },
            **{"plugin": "siit", "params": {}, "driver": "tayga", "device": "tayga 1"},
            **{"suites": ["translation"], "seconds": 1.0, "findings": list(findings)},
        },
        "here",
    )


@pytest.mark.parametrize(
    ("level", "said", "fails"),
    [
        ("MUST", "deviates", True),
        ("SHOULD", "deviates", True),
        ("MAY", "deviates", False),
        ("MUST", "cannot be told", False),
        ("MUST", "conforms", False),
    ],
)
def test_what_fails_an_audit(level: str, said: str, fails: bool) -> None:
    made = audit(finding("a", level, said))
    assert made.fails is fails
    suite = ElementTree.fromstring(to_junit(made))  # noqa: S314
    assert suite.get("failures") == str(int(fails))
    assert suite.get("skipped") == str(int(said == "cannot be told"))
    assert len(suite.findall(".//testcase")) == 1
    assert ("deviates" in verdict(made)) is fails


def test_the_page_shows_frames_and_nothing_a_device_wrote_as_markup() -> None:
    page = to_html(
        document(audit(finding("a", "MUST", "deviates"), finding("b", "MUST", "conforms")))
    )
    assert "00 ff 41" in page
    assert "TTL &lt;58&gt;" in page
    assert "frames 1 to 1 of frames.pcap" in page


@pytest.mark.parametrize("width", [60, 140, 300])
def test_a_terminal_names_what_was_sent_expected_and_got(width: int) -> None:
    shown = io.StringIO()
    one, other = finding("a", "MUST", "deviates"), finding("b", "MAY", "conforms")
    for section in document(audit(one, other)).sections[1:]:
        [table] = [block for block in section.blocks if isinstance(block, Sheet)]
        print_table(Console(file=shown, width=width), table)
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    card = [
        *(
            "a: it does",
            "  section   RFC 7915 5.1",
            "  level     MUST",
            "  sent      left: a packet",
        ),
        *("  expected  TTL 60", "  got       TTL <58>\\x07", "  verdict   deviates"),
    ]
    assert lines[: 1 + len(card)] == ["Clauses that are deviated from", *card]
    assert lines[1 + len(card) : 2 + 2 * len(card)] == ["Every clause that was asked", *card]
    assert lines[2 + 2 * len(card) :: 6] == ["b: it does", "  verdict   conforms"]


def test_what_was_written_is_read_again() -> None:
    made = audit(finding("a", "MUST", "deviates"))
    assert audit_from(json.loads(json.dumps(made.to_json())), "there") == made
    with pytest.raises(UsageError, match="no audit"):
        audit_from({"schema": "other"}, "there")
    with pytest.raises(UsageError, match="damaged: "):
        audit_from({"schema": "v6t-audit/1", "made": []}, "there")


def tried(answers: Iterable[str]) -> tuple[int, str]:
    """How often a clause is tried whose judgements are these, and the last one."""
    said = iter(answers)

    def exchange() -> Exchange:
        yield Send(())
        return Judgement(next(said), "", "")  # type: ignore[arg-type]

    outcome = carry_out(Clause("c", "RFC 1", "1", "MUST", "it does", exchange), lambda send: ())
    return outcome.tries, outcome.judgement.verdict


def test_a_device_that_dies_is_made_again_for_the_other_clauses() -> None:
    class Mortal:
        alive = True

        def carry(self, send: Send) -> Sequence[Frame]:
            self.alive = self.alive and send.listen_s == 0
            return [Frame("left", b"")] if self.alive else []

        def revive(self) -> None:
            self.alive = True

        def check(self) -> None:
            pass

    def asking(deadly: bool) -> Iterator[Send]:
        heard = yield Send((), listen_s=float(deadly))
        said = ("conforms", "", "") if heard else ("deviates", "", "", deadly)
        return Judgement(*said)  # type: ignore[arg-type]

    clauses = [
        Clause(name, "RFC 1", "1", "MUST", "it does", lambda d=name == "two": asking(d))  # type: ignore[misc]
        for name in ("one", "two", "three")
    ]
    found, bound = auditing._Findings(), bind(resolve(flags=Flags("siit")))
    auditing._ask(Mortal(), clauses, "", bound, found)  # type: ignore[arg-type]
    assert [row.verdict for row in found.rows] == ["conforms", "deviates", "conforms"]


def test_silence_is_tried_again() -> None:
    assert tried(["conforms"]) == (1, "conforms")
    assert tried(["deviates", "conforms"]) == (2, "conforms")
    assert tried(["deviates"] * TRIES) == (TRIES, "deviates")
    assert tried(["cannot be told", "deviates", "deviates"]) == (TRIES, "deviates")
    assert tried(["deviates", "cannot be told", "cannot be told"]) == (TRIES, "deviates")
    assert tried(["deviates", "cannot be told", "conforms"]) == (TRIES, "conforms")


def test_suites_of_other_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v6t_mine.py").write_text(FOREIGN)
    info = tmp_path / "v6t_mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: v6t-mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[v6t.clauses]\nmine = v6t_mine:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"mine", "translation", "relay", "tunnel"} <= set(suites.names())
    done = v6t("audit", "--plugin", "nat44", "--list", "--suite", "mine")
    assert (done.status, done.out.split()[0]) == (0, "mine-1")


def test_the_list_names_every_clause() -> None:
    done = v6t("audit", "--plugin", "mapt-br", "--list", "--json")
    rows = json.loads(done.out)
    assert {"clause", "section", "level", "title"} == set(rows[0])
    assert len({row["clause"] for row in rows}) == len(rows) > 100


@pytest.mark.parametrize("plugin", ["nat44", "nat64", "dslite-aftr"])
def test_the_list_is_of_what_would_be_asked(plugin: str) -> None:
    """The suite wants other parameters than the defaults: the list is made with them, too."""
    done = v6t("audit", "--plugin", plugin, "--suite", "nat", "--list")
    assert done.status == 0, done.err
    assert "RFC 4787 REQ-1" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plugin", "ipv6-router"], "no clause is known for ipv6-router"),
        (["--plugin", "siit", "--suite", "nothing"], "no suite 'nothing'"),
        (["--plugin", "siit", "-o", "/dev/null/here"], "cannot be written: Not a directory"),
        (["--plugin", "siit", "--interfaces", "one"], "takes two names"),
        (["--plugin", "siit", "--interfaces", "one,one"], "not one twice"),
        (["--plugin", "siit", "--dut", "cable"], "no device to audit"),
        (["--plugin", "siit", "--clause", "no-such"], "no clause has such a name"),
        (["--plugin", "nat44", "--set", "initiator_count=1"], "set initiator_count"),
        (
            ["--plugin", "nat44", "--set", "pool_ports={min: 1024, max: 1279}"],
            "do not fit 1 public addresses",
        ),
        (["--plugin", "nat64", "--set", "prefix=wkp"], "choose another prefix"),
        (["--plugin", "siit", "--set", "eam=[]", "--set", "prefix=64:ff9b::/96"], "RFC 6052"),
        (["--plugin", "clat", "--set", "plat_prefix=64:ff9b::/96"], "choose another prefix"),
        (["--plugin", "mapt-br", "--set", "dmr=64:ff9b::/96"], "choose another prefix"),
        (["--plugin", "siit", "--wait", "nan"], "'nan' is not a valid float"),
    ],
)
def test_what_cannot_be_asked(words: list[str], said: str) -> None:
    done = v6t("audit", *words)
    assert done.status == 2
    assert said in done.err


@pytest.mark.parametrize(
    ("plugin", "params", "clause"),
    [
        ("nat64", ["initiator_count=1"], "rfc7915-5.1-udp"),
        ("mapt-ce", ["ea_len=13"], "rfc7599-8.2-foreign-udp"),
        ("mapt-ce", ["ce_psid=9"], "rfc7599-8.2-foreign-udp"),
        ("nat44", ["pool_ports={min: 1024, max: 2047}", "initiator_ports={min: 1024, max: 1279}"],
         "rfc4787-REQ-1-mapped"),
    ],
)  # fmt: skip
def test_audit_list_of_unusual_parameters_has_clause(
    plugin: str, params: list[str], clause: str
) -> None:
    done = v6t("audit", "--plugin", plugin, "--list", *[w for p in params for w in ("--set", p)])
    assert done.status == 0, done.err
    assert clause in done.out.split()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plugin", "nat44", "--tester", "sim"], "is simulated and cannot be audited"),
        (["--plugin", "dns64"], "no clause is known for dns64"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_run_that_cannot_ask_first_says_so(words: list[str], said: str, dry: list[str]) -> None:
    done = v6t("run", *words, "--audit", "refuse", *dry)
    assert done.status == 2
    assert said in done.err
    assert "leave out --audit" in done.err
    assert "--interfaces" not in done.err


def test_a_plan_tells_what_is_asked_first() -> None:
    words = ["run", "--plugin", "siit", "--dry-run"]
    said = v6t(*words, "--audit", "refuse").out
    assert "6 clauses, is asked before the first trial; what" in said
    assert "SHOULD ends the run" in said
    assert "is said" in v6t(*words, "--audit", "warn").out
    assert "before the first trial" not in v6t(*words).out
    json.loads(v6t(*words, "--audit", "warn", "--json").out)


@pytest.mark.parametrize(("driver", "told"), [("jool", True), ("tayga", True), ("reference", True)])
def test_what_a_driver_does_not_tell_its_device_is_not_asked_of_it(driver: str, told: bool) -> None:
    one, other = (
        bind(resolve(flags=Flags("siit", dut=driver, params=params)))
        for params in ({}, {"lowest_ipv6_mtu": "1400"})
    )
    assert other.driver.configured_alike(one.intent, other.intent) != told
    assert (not told) == bool(refused(one, {"lowest_ipv6_mtu": 1400}))


def refused(bound: BoundRun, params: Mapping[str, Any]) -> str:
    """Why a device is not asked in a further configuration; empty: it is."""
    try:
        auditing.further(bound, params)
    except UsageError as exc:
        return exc.message
    return ""


@pytest.mark.parametrize(
    ("driver", "plugin", "given", "not_told"),
    [
        ("vpp", "mape-br", {}, set()),
        ("vpp", "mapt-br", {"rule_ipv6": "2001:db8:ce::/48"}, {"lowest-ipv6-mtu of 1400"}),
        ("vpp", "lwaftr", {"psid_len": "5", "softwires": "64"}, set()),
        ("jool", "mapt-br", {}, set()),
    ],
)
def test_relays_are_asked_in_every_configuration_though_one_is_the_first_one(
    driver: str, plugin: str, given: Mapping[str, str], not_told: set[str]
) -> None:
    """One PSID offset is the plugin's own: only the tester's number of CEs differs, and nothing need be told."""
    bound = bind(resolve(flags=Flags(plugin, dut=driver, params=given)))
    _, asked = auditing.asked_of(bound, ())
    variants = {words: params for _, words, params in asked.variants(bound.technology)}
    told = {words: p for words, p in variants.items() if not refused(bound, p)}
    same = [w for w, p in told.items() if auditing.further(bound, p).intent == bound.intent]
    assert [words.rpartition(" ")[0] for words in same] == ["PSID offset"]
    assert {
        words for words, p in variants.items() if "lowest_ipv6_mtu" in refused(bound, p)
    } == not_told


@pytest.mark.lab
def test_a_right_device_and_a_wrong_one_in_the_lab(tmp_path: Path) -> None:
    common = ["audit", "--plugin", "siit", "--clause", "5.1-udp,4.1-udp,ttl-1,df-too-big,2.2-up-56"]
    right = v6t(*common, "-o", str(tmp_path / "right"))
    assert right.status == 0, right.out
    for name in (*FILES.values(), CAPTURE):
        assert (tmp_path / "right" / name).stat().st_size > 100
    made = json.loads((tmp_path / "right" / "audit.json").read_text())
    assert {f["verdict"] for f in made["findings"]} == {"conforms"}
    assert len(made["findings"]) == 7
    # a device that believes in another table answers, but not rightly
    eam = '[{"ipv4": "198.18.0.0/24", "ipv6": "2001:2:0:77::/120"}, {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"}]'
    wrong = v6t(
        *common,
        "--no-variants",
        "--dut",
        "reference",
        "--set-dut",
        f"eam={eam}",
        "-o",
        str(tmp_path / "wrong"),
    )
    assert wrong.status == 6, wrong.err
    assert "The device deviates from" in wrong.out


def test_two_audits_are_compared(tmp_path: Path) -> None:
    for name, said in (("one", "conforms"), ("two", "deviates")):
        (tmp_path / name).mkdir()
        made = audit(finding("a", "MUST", said), finding("b", "MAY", "conforms"))
        (tmp_path / name / "audit.json").write_text(json.dumps(made.to_json()))
    one, two = tmp_path / "one", tmp_path / "two"
    done = v6t("compare", one, two, "--json")
    assert done.status == 0, done.err
    [row] = json.loads(done.out)["differences"]
    assert (row["clause"], row["verdicts"]) == ("a", ["conforms", "deviates"])
    assert "not judged alike" in v6t("compare", one, two).out
    assert "Every clause is judged alike" in v6t("compare", one, one).out
    assert v6t("compare", one, two, "-o", tmp_path / "x.html").status == 0
    assert "Clauses that are not judged alike" in (tmp_path / "x.html").read_text()
    assert v6t("compare", one).status == 2
    assert v6t("compare", one, two, "--published").status == 2
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / CONFIG).write_text("{}")
    assert "contains an audit, not a run" in v6t("compare", one, tmp_path / "run").err
    assert "contains an audit, not a run" in v6t("report", one).err
    assert "holds a run" in v6t("audit", "--plugin", "siit", "-o", tmp_path / "run").err
    (two / "audit.json").write_text("{}")
    assert "no audit" in v6t("compare", one, two).err


def test_only_clauses_that_both_audits_asked_are_compared(tmp_path: Path) -> None:
    def made(name: str, plugin: str, *findings: dict[str, Any]) -> Path:
        (tmp_path / name).mkdir()
        record = audit(*findings).model_copy(update={"plugin": plugin})
        (tmp_path / name / "audit.json").write_text(json.dumps(record.to_json()))
        return tmp_path / name

    alike = finding("b", "MAY", "conforms")
    one = made(
        "one", "siit", finding("a", "MUST", "conforms"), alike, finding("c", "MUST", "deviates")
    )
    two = made("two", "siit", finding("a", "MUST", "deviates"), alike)
    said = v6t("compare", two, one).out
    assert said.splitlines()[0] == "1 clause is judged differently."
    assert "not compared: 1 in 2." in said
    assert "c: it does" not in said
    done = json.loads(v6t("compare", one, two, "--json").out)
    assert ([row["clause"] for row in done["differences"]], done["asked_once"]) == (["a"], [1, 0])
    three = made("three", "nat44", finding("d", "MUST", "conforms"))
    refused = v6t("compare", one, three)
    assert refused.status == 2
    assert "are not alike: technology siit, nat44" in refused.err
    assert "--anyway" in refused.err
    assert "No clause was asked in two" in v6t("compare", one, three, "--anyway").out


@pytest.mark.lab
def test_a_run_asks_first_and_refuses(tmp_path: Path) -> None:
    eam = json.dumps(WRONG)
    done = v6t(
        "run",
        "--plugin",
        "siit",
        "--audit",
        "refuse",
        "--set-dut",
        f"eam={eam}",
        "-o",
        tmp_path / "run",
    )
    assert done.status == 6
    assert "RFC 7915 5.1" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.lab
def test_a_device_at_two_interfaces(tmp_path: Path) -> None:
    words = ["--clause", "5.1-udp,4.1-udp,ttl-1", "-o", str(tmp_path / "audit"), "--json"]
    done = subprocess.run(
        ["unshare", "-r", "-n", sys.executable, "-c", CABLED, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {f["verdict"] for f in json.loads(done.stdout)["findings"]} == {"conforms"}


@pytest.mark.lab
def test_interfaces_that_are_not_there(tmp_path: Path) -> None:
    done = v6t("audit", "--plugin", "siit", "--interfaces", "nowhere1,nowhere2", "-o", tmp_path)
    assert done.status == 3
    assert "nowhere1 cannot be used" in done.err


def _probed_by(monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    @contextmanager
    def probed(*rest: Any) -> Iterator[Any]:
        yield device

    monkeypatch.setattr(auditing, "probed", probed)


class _Deaf:
    """A device that answers nothing until ``ends`` is raised by the fifth exchange."""

    about = "deaf"

    def __init__(self, ends: BaseException) -> None:
        self.ends = ends
        self.asked = 0

    def carry(self, send: Send) -> Sequence[Frame]:
        self.asked += 1
        if self.asked == 5 and isinstance(self.ends, KeyboardInterrupt):
            raise self.ends
        return []

    def check(self) -> None:
        if isinstance(self.ends, DutError):
            raise self.ends

    def revive(self) -> None:
        """In vain."""


def test_what_was_asked_before_an_interruption_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _probed_by(monkeypatch, _Deaf(KeyboardInterrupt()))
    bound = bind(resolve(flags=Flags(plugin="siit")))
    done = auditing.audit(bound, auditing.Wanted(clauses=("4.1-",)), None)
    assert isinstance(done.trouble, KeyboardInterrupt)
    said = [f.got == auditing.UNASKED for f in done.record.findings]
    assert said.count(False) >= 1
    assert said == sorted(said)  # those that were asked first, then all others
    assert said[-1]
    assert {f.verdict for f in done.record.findings if f.got == auditing.UNASKED} == {UNTOLD}


@pytest.mark.parametrize(("nth", "asked"), [(1, 0), (2, 4)])
def test_an_interrupted_audit_whose_device_is_not_put_back_ends(
    monkeypatch: pytest.MonkeyPatch, nth: int, asked: int
) -> None:
    """The error takes the interrupt's place, and no further configuration is begun for all that."""
    device, begun = _Deaf(KeyboardInterrupt()), []

    @contextmanager
    def probed(*rest: Any) -> Iterator[Any]:
        begun.append(device)
        device.asked = asked if len(begun) == nth else -1_000_000
        try:
            yield device
        except KeyboardInterrupt as exc:
            raise DutError("the device is not put back", code="command-failed") from exc

    monkeypatch.setattr(auditing, "probed", probed)
    bound = bind(resolve(flags=Flags(plugin="siit")))
    done = auditing.audit(bound, auditing.Wanted(), None)
    assert len(begun) == nth
    assert "not put back" in str(done.trouble)
    assert done.record.findings[-1].got == auditing.UNASKED


@pytest.mark.parametrize("stopped", [True, False])
def test_a_stop_while_a_device_is_made_anew_is_no_answer(stopped: bool) -> None:
    class Device:
        def restore(self) -> None:
            error = KeyboardInterrupt() if stopped else OSError()
            raise DutError("the device is not put back", code="command-failed") from error

    device: Any = ProbedDevice(None, Listening(), Device(), "a device")  # type: ignore[arg-type]
    with pytest.raises(DutError if stopped else CannotBeDone, match="not put back"):
        device.carry(Send(frames=(), first="configure"))


def test_a_device_that_is_no_longer_configured_deviates_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _probed_by(monkeypatch, _Deaf(DutError("it undid its configuration", code="command-failed")))
    bound = bind(resolve(flags=Flags(plugin="siit")))
    with pytest.raises(DutError, match="undid its configuration"):
        auditing.audit(bound, auditing.Wanted(variants=False), None)


def test_what_was_found_is_noted_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed writes nothing more."""
    monkeypatch.setattr(auditing, "NOTED_S", 0.0)
    _probed_by(monkeypatch, _Deaf(KeyboardInterrupt()))
    noted: list[int] = []
    bound = bind(resolve(flags=Flags(plugin="siit")))
    wanted = auditing.Wanted(clauses=("4.1-",))
    auditing.audit(bound, wanted, None, lambda record: noted.append(len(record.findings)))
    assert noted
    assert noted == list(range(1, len(noted) + 1))


def test_further_tries_wait_longer_for_what_is_still_on_its_way() -> None:
    def exchange() -> Exchange:
        heard = yield Send([])
        return Judgement("conforms" if heard else "deviates", "a frame", "none")

    waited: list[float] = []

    def late(send: Send) -> Sequence[Frame]:
        waited.append(send.stillness)
        return [Frame("left", b"")] if len(waited) == TRIES else []

    clause = Clause("late", "RFC 7915", "1", "MUST", "it comes late", exchange)
    assert carry_out(clause, late).judgement.verdict == "conforms"
    assert waited == [1, 3, 9]


def test_verdicts_that_no_disk_takes_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*rest: Any) -> None:
        raise UsageError("no space left", code="invalid-value")

    _probed_by(monkeypatch, _Deaf(TimeoutError()))
    monkeypatch.setattr(auditing, "write", full)
    done = v6t("audit", "--plugin", "siit", "--clause", "5.1-udp", "--no-variants", "-o", tmp_path)
    assert done.status == 2
    assert "no space left" in done.err
    assert "5.1-udp" in done.out


class _Dying(_Deaf):
    """Deaf, and gone from its fifth exchange on."""

    def check(self) -> None:
        if self.asked >= 5:
            raise self.ends


def test_nothing_counts_of_a_device_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that it drops what must be dropped; and no clause is told of twice."""
    _probed_by(monkeypatch, _Dying(DutError("it was started anew", code="command-failed")))
    bound = bind(resolve(flags=Flags(plugin="siit")))
    done = auditing.audit(bound, auditing.Wanted(), None)
    assert isinstance(done.trouble, DutError)
    asked = [f for f in done.record.findings if f.tries]
    assert sum(f.tries for f in asked) < 5
    names = [(f.clause, f.variant) for f in done.record.findings]
    assert len(names) == len(set(names))


def test_a_device_that_somebody_holds_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Held:
        def open(self) -> None:
            raise DutError("in use by ann", code="command-failed")

        def restore(self) -> None:
            done.append("restored")

        def close(self) -> None:
            done.append("closed")

    bound = bind(resolve(flags=Flags(plugin="siit")))
    monkeypatch.setattr(type(bound.driver), "session", lambda *rest: Held())
    with pytest.raises(DutError, match="in use by ann"):
        auditing.audit(bound, auditing.Wanted(interfaces=("one", "two")), None)
    assert done == []
