from contextlib import contextmanager

import pytest
from v6t.audit import auditor
from v6t.audit.auditor import (
    TRIES,
    AuditProgress,
    AuditRequest,
    ClauseOutcome,
    audit_core_clauses,
    carry_out,
    choose_clauses,
    find_uncovered_rfcs,
    list_core_clauses,
    run_audit,
)
from v6t.audit.clause import Clause, Frame, Judgement, ProbeUnable, Send
from v6t.audit.packet_device.build import build_device
from v6t.audit.self_check import DeviceProbe, InProcessDevice
from v6t.base.errors import DutError, TesterError, UsageError
from v6t.plugins.base import Technology
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat64 import Nat64
from v6t.plugins.siit import Clat, Siit
from v6t.tests.audit.in_process import with_params


class SilentDevice:
    def receive(self, *frame):
        return []


class Probe(DeviceProbe):
    """A probe that raises an error in its n-th exchange or check."""

    def __init__(self, device, error, exchanges):
        super().__init__(device)
        self.error, self.exchanges = error, exchanges

    def exchange(self, frames, wait_s, quiet_s):
        self.exchanges -= 1
        if self.exchanges < 0 and not isinstance(self.error, DutError):
            raise self.error
        return super().exchange(frames, wait_s, quiet_s)

    def check(self):
        if self.exchanges < 0 and isinstance(self.error, DutError):
            raise self.error


class Device(InProcessDevice):
    """Device for audits that raises an error from its n-th exchange on."""

    def __init__(self, technology, device=None, error=None, exchanges=10**9, refused=()):
        super().__init__(technology)
        self.options = device, error, exchanges, refused
        self.opened: list[Technology] = []

    @contextmanager
    def open(self):
        device, error, exchanges, _ = self.options
        self.opened.append(self.technology)
        yield Probe(device or build_device(self.technology), error, exchanges)

    def with_params(self, params):
        if set(params) & set(self.options[3]):
            raise UsageError("no such setting", code="setting-untellable")
        changed = Device(super().with_params(params).technology, *self.options)
        changed.opened = self.opened
        return changed


def audit(device, **request):
    chosen, selection = choose_clauses(device, (), ())
    progress = request.pop("progress", AuditProgress())
    return progress, run_audit(chosen, selection, AuditRequest(**request), progress)


def test_correct_device_conforms_in_every_configuration():
    progress, error = audit(Device(MapEBorderRelay()))
    assert error is None
    assert {f.verdict for f in progress.findings} == {"conforms"}
    assert len(progress.findings) == progress.planned
    assert len({(f.clause, f.variant) for f in progress.findings}) == progress.planned


def test_interrupted_audit_keeps_its_findings():
    progress, error = audit(Device(Siit(), error=KeyboardInterrupt(), exchanges=5))
    assert isinstance(error, KeyboardInterrupt)
    assert progress.stopped == "interrupted"
    assert 1 <= len(progress.findings) <= 5


def test_interruption_before_the_first_finding_is_raised():
    with pytest.raises(KeyboardInterrupt):
        audit(Device(Siit(), error=KeyboardInterrupt(), exchanges=0))


@pytest.mark.parametrize("kind", [DutError, TesterError])
def test_failed_device_or_tester_ends_audit_and_keeps_findings(kind):
    failure = kind("it was started anew", code="command-failed")
    progress, error = audit(Device(Siit(), error=failure, exchanges=20))
    assert error is failure
    assert "it was started anew" in progress.stopped and progress.findings
    assert {f.verdict for f in progress.findings} == {"conforms"}


def test_interrupted_device_that_is_not_restored_starts_no_variant():
    device = Device(Siit(), error=KeyboardInterrupt(), exchanges=5)
    original = device.open

    @contextmanager
    def open_without_rollback():
        try:
            with original() as probe:
                yield probe
        except KeyboardInterrupt as exc:
            raise DutError("not restored", code="command-failed") from exc

    device.open = open_without_rollback
    _, error = audit(device)
    assert isinstance(error, DutError)
    assert len(device.opened) == 1


def test_unsupported_variant_is_not_testable():
    progress, _ = audit(Device(Siit(), refused=["lowest_ipv6_mtu"]), clauses=["no-df"])
    verdicts = {f.clause: f.verdict for f in progress.findings}
    assert verdicts["rfc7915-4-no-df-fits"] == "conforms"
    assert verdicts["rfc7915-4-no-df-fits-1400"] == "not testable"


def test_audit_without_variants_opens_device_once():
    device = Device(Siit())
    progress, _ = audit(device, variants=False, clauses=["5.1-"])
    assert len(device.opened) == 1
    assert all("-5.1-" in f.clause for f in progress.findings)


def test_findings_are_saved_and_counted_while_the_audit_runs(monkeypatch):
    monkeypatch.setattr(auditor, "SAVE_INTERVAL_S", 0.0)
    saved: list[tuple[int, bool]] = []
    seen: list[tuple[int, int]] = []
    progress = AuditProgress(
        save=lambda progress: saved.append((len(progress.findings), progress.stopped != "")),
        tested=lambda number, planned, name: seen.append((number, planned)),
    )
    audit(Device(Siit()), clauses=["5.1-df"], variants=False, progress=progress)
    assert saved == [(number, True) for number in (1, 2, 3, 4)]
    assert progress.stopped == ""
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_user_params_override_preferred_params():
    chosen, _ = choose_clauses(Device(Nat44()), (), ())
    assert chosen.technology.params.initiator_count == 2
    with pytest.raises(UsageError) as raised:
        choose_clauses(Device(Nat44()), (), ("initiator_count", "responder_count"))
    assert "initiator_count" in (raised.value.hint or "")


def test_clat_has_a_prefix_for_benchmark_addresses():
    _, selection = choose_clauses(Device(with_params(Clat(), plat_prefix="64:ff9b::/96")), (), ())
    assert len(selection.clauses) > 140


def test_only_core_clauses_of_silent_device_deviate():
    assert audit_core_clauses(Device(Siit()), list_core_clauses(Siit())) == []
    result = audit_core_clauses(Device(Siit(), SilentDevice()), list_core_clauses(Siit()))
    assert {f.clause for f in result} == {"rfc7915-5.1-udp", "rfc7915-4.1-udp"}


def test_rfcs_without_clauses_are_listed():
    _, selection = choose_clauses(Device(Nat44()), (), ())
    assert find_uncovered_rfcs(Nat44(), selection) == ["RFC 3022"]


def test_nat_with_session_limit_is_emptied_before_each_clause():
    device = Device(with_params(Nat64(), session_limit=2))
    progress, _ = audit(device, variants=False, clauses=["rfc7915-4."])
    assert len(progress.findings) > 10
    assert {f.verdict for f in progress.findings} == {"conforms"}


def test_nat_is_emptied_in_each_configuration(monkeypatch):
    """The NAT may hold connections of an earlier configuration, with other public addresses."""
    device, flushed = Device(Nat44()), []
    monkeypatch.setattr(Probe, "flush", lambda _: flushed.append(len(device.opened)), raising=False)
    audit(device, clauses=["REQ-1-mapped", "pool"])
    assert flushed == [*range(1, len(device.opened) + 1)]
    assert len(flushed) > 1


class Recorder(DeviceProbe):
    """A device that answers its third exchange only, and cannot be flushed."""

    def __init__(self):
        super().__init__(None)
        self.quiet: list[float] = []

    def exchange(self, frames, wait_s, quiet_s):
        self.quiet.append(quiet_s)
        return [Frame("left", b"")] if len(self.quiet) == TRIES else []

    def flush(self):
        raise ProbeUnable("no way")


def make_clause(verdicts, level="MUST", lasts_s=0.0):
    answers = iter(verdicts)

    def steps():
        yield Send(())
        return Judgement(next(answers), "", "")

    return Clause("RFC 1", "1", "c", level, "it does", steps, lasts_s=lasts_s)


@pytest.mark.parametrize(("verdicts", "tries", "verdict"), [
    (["conforms"], 1, "conforms"), (["deviates", "conforms"], 2, "conforms"),
    (["deviates"] * 3, 3, "deviates"), (["not testable", "deviates", "deviates"], 3, "deviates"),
    (["deviates", "not testable", "not testable"], 3, "deviates"),
    (["deviates", "not testable", "conforms"], 3, "conforms"),
])  # fmt: skip
def test_clause_that_does_not_conform_is_repeated(verdicts, tries, verdict):
    outcome = carry_out(make_clause(verdicts), Recorder(), AuditRequest())
    assert (outcome.tries, outcome.judgement.verdict) == (tries, verdict)


def test_long_clause_is_tried_once():
    assert carry_out(make_clause(["deviates"], lasts_s=60), Recorder(), AuditRequest()).tries == 1


def test_deviation_from_may_clause_is_information():
    outcome = carry_out(make_clause(["deviates"] * 3, "MAY"), Recorder(), AuditRequest())
    assert outcome.judgement.verdict == "information"


def test_each_try_listens_longer_after_a_frame():
    def steps():
        heard = yield Send(())
        return Judgement("conforms" if heard else "deviates", "a frame", "nothing")

    probe, clause = Recorder(), Clause("RFC 1", "1", "late", "MUST", "it comes late", steps)
    outcome = carry_out(clause, probe, AuditRequest(wait_s=1, quiet_s=1))
    assert (outcome.judgement.verdict, probe.quiet) == ("conforms", [1, 3, 9])


def test_probe_that_cannot_flush_makes_clause_untestable():
    def steps():
        yield Send((), before="flush")
        return Judgement("conforms", "", "")

    clause = Clause("RFC 1", "1", "c", "MUST", "it does", steps)
    outcome = carry_out(clause, Recorder(), AuditRequest())
    assert (outcome.judgement.verdict, outcome.judgement.got) == ("not testable", "no way")


def test_device_lost_during_variant_keeps_earlier_findings():
    class LostInVariant(Device):
        def with_params(self, params):
            changed = super().with_params(params)
            changed.options = None, DutError("it was started anew", code="command-failed"), 1, ()
            return changed

    progress, error = audit(LostInVariant(Siit()))
    assert error is None
    assert "not testable" in {f.verdict for f in progress.findings}
    assert len({(f.clause, f.variant) for f in progress.findings}) == len(progress.findings)


def test_dead_device_that_cannot_be_reset_ends_the_audit(monkeypatch):
    def refuse(_probe):
        raise ProbeUnable("v6t does not configure this device")

    monkeypatch.setattr(Probe, "reset", refuse)
    dead = Judgement("deviates", "", "", dead=True)
    outcome = ClauseOutcome(make_clause([]), dead, [], 1)
    monkeypatch.setattr(auditor, "carry_out", lambda clause, *_: outcome._replace(clause=clause))
    progress, _ = audit(Device(Siit()))
    assert len(progress.findings) == 1
    assert "v6t does not configure this device" in progress.stopped
