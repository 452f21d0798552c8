"""The conformance check passes every built-in technology and finds planted faults."""

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from pydantic import Field
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_technology_type
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins import conformance
from v6t.plugins.base import Expected, StatelessTechnology
from v6t.plugins.conformance import assert_conforms, check_plugin
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.nat44 import Nat44
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.exports import to_stl_json
from v6t.profiles.model import FramePair
from v6t.tests.core.support import v6t
from v6t.tests.plugins import foreign_stateful
from v6t.tests.plugins.foreign import ALL

from .support import BUILT_IN

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*BUILT_IN, "siit nat46", *ALL, foreign_stateful.TcpNat])
def test_built_in_technology_conforms(name):
    kind = load_technology_type(name.split()[0]) if isinstance(name, str) else name
    is_nat46 = name == "siit nat46"
    assert_conforms(kind, kind.params_model(orientation="nat46") if is_nat46 else None)


@pytest.fixture
def few_cases(monkeypatch):
    """Check single sizes, and all traffic classes with a VLAN, but no mixes and other links."""
    list_cases, variants = conformance.list_cases, ("one size", "VLAN on the left")
    monkeypatch.setattr(
        conformance, "list_cases",
        lambda *args: (case for case in list_cases(*args) if case.variant in variants),
    )  # fmt: skip


def test_checksum_that_trex_cannot_compute_is_a_finding(few_cases):
    findings = check_plugin(foreign_stateful.QueryNat).findings
    assert findings
    assert all("ICMP" in str(finding) for finding in findings)


def flip_octet(octet, in_direction):
    def change(answer, direction, frames):
        changed = answer.frames.copy()
        changed[answer.length > 0, octet] ^= 0x10
        return replace(answer, frames=changed) if direction == in_direction else answer

    return change


def forward_all(answer, direction, frames):
    count, size = frames.shape
    if answer.frames.shape[1] and count > 4:
        answer.reason[answer.length == 0] = 0
        answer.length[answer.length == 0] = answer.frames.shape[1]
    elif count > 4 and size > 90:
        return Expected(frames, np.full(count, size, np.int32), np.zeros(count, np.uint8))
    return answer


def restore_hops(answer, direction, frames):
    if direction == "reverse" and answer.length.all():
        answer.frames[:, 14 + 40 + 8] = 64
        write_ipv4_checksum(answer.frames, 14 + 40)
    return answer


def change_input(answer, direction, frames):
    frames[:, :1] ^= 1
    return answer


def damage_trailer(answer, direction, frames):
    if answer.length.any():
        answer.frames[:, -1] ^= 1
    return answer


def raise_ttl_of_tunnels(self, direction, frames):
    alive = frames.copy()
    ttl = 14 + 40 + 8 if direction == "forward" else 14 + 8
    if frames.shape[1] > ttl:
        expired = alive[:, ttl] == 1
        alive[expired, ttl] = 2
        alive[expired, ttl + 2] -= 1  # the checksum for a TTL increased by one
    return MapEBorderRelay.expect(self, direction, alive)


def raise_ttl_of_connections(self, direction, frames, initial, learned):
    alive = frames.copy()
    at = 14 if tuple(alive[0, 12:14]) == (8, 0) else 18
    alive[:, at + 8] = 64
    write_ipv4_checksum(alive, at)
    return Nat44.expect_for_connections(self, direction, alive, initial, learned)


def change_layers(change):
    def send(self, direction, sizes, seed=1):
        sent = MapEBorderRelay.build_traffic(self, direction, sizes, seed)
        changed = (tuple(filter(None, map(change, c.layers))) for c in sent.classes)
        classes = [replace(c, layers=x) for c, x in zip(sent.classes, changed, strict=True)]
        return replace(sent, classes=tuple(classes))

    return send


def send_other_seeds(self, direction, sizes, seed=1, calls=count()):  # noqa: B008
    return MapEBorderRelay.build_traffic(self, direction, sizes, seed + next(calls))


class UndescribedParams(MapEParams):
    secret: int = 3


class RequiredParams(MapEParams):
    required: int = Field(description="must be given")


def faulty(change=None, kind=MapEBorderRelay, **attributes):
    """Make a technology with a changed reference translation or with other attributes."""

    def expect(self, direction, frames):
        return change(kind.expect(self, direction, frames), direction, frames)

    attributes |= {"__module__": __name__, **({"expect": expect} if change else {})}
    return type("Faulty", (kind,), attributes)


def set_unknown_reason(answer, direction, frames):
    return replace(answer, reason=np.where(answer.length == 0, 99, 0).astype(np.uint8))


def refuse(answer, direction, frames):
    raise UsageError("no hop limit is left", code="conflict")


WRONG_CHECKSUM = faulty(flip_octet(25, "forward"))
RAISING = faulty(lambda answer, direction, frames: frames[goood])  # noqa: F821


@pytest.mark.parametrize(("code", "kind"), [
    ("header", WRONG_CHECKSUM),
    ("header", faulty(flip_octet(19, "reverse"))),
    ("header", faulty(build_traffic=change_layers(lambda x: x.replace(chksum=7) if x.name == "UDP" else x))),
    ("vlan", faulty(build_traffic=change_layers(lambda x: None if x.name == "Dot1Q" else x))),
    ("not-repeatable", faulty(build_traffic=send_other_seeds)),
    ("overhead", faulty(make_frame_pair=lambda self, size: FramePair(size, size - 44))),
    ("hop-limit", faulty(expect=raise_ttl_of_tunnels)),
    ("hop-limit", faulty(kind=Nat44, expect_for_connections=raise_ttl_of_connections)),
    ("description", faulty(params_model=UndescribedParams)),
    ("default", faulty(params_model=RequiredParams)),
    ("pickling", faulty(__reduce__=lambda self: (MapEBorderRelay, (self.params, lambda: None)))),
    ("pickling", faulty(__reduce__=lambda self: (MapEBorderRelay, (MapEParams(ttl=9),)))),
    ("drop-reason", faulty(set_unknown_reason)),
    ("negative-forwarded", faulty(forward_all)),
    ("input-changed", faulty(change_input)),
    ("trailer", faulty(damage_trailer)),
    ("error", RAISING),
    ("intent", faulty(make_dut_intent=lambda self: replace(MapEBorderRelay().make_dut_intent(), configuration={}))),
    ("frame-size", faulty(rfc_frame_sizes=(*MapEBorderRelay.rfc_frame_sizes, 9000))),
    ("ip-version", faulty(ip_versions=(4, 6))),
    ("hop-limit", faulty(restore_hops)),
])  # fmt: skip
def test_faulty_technology_has_a_finding_with_its_code(code, kind, few_cases):
    assert code in {finding.code for finding in check_plugin(kind).findings}


def omit_a_write(streams):
    def omit(stream):
        at = next(n for n, i in enumerate(stream.program) if i["type"].startswith("write"))
        return stream.with_program(stream.program[:at] + stream.program[at + 1 :])

    return replace(streams, streams=tuple(map(omit, streams.streams)))


@pytest.mark.parametrize(("name", "replacement", "code"), [
    ("compile_traffic", lambda traffic, **keys: omit_a_write(compile_traffic(traffic, **keys)), "variable"),
    ("to_stl_json", lambda streams: to_stl_json(omit_a_write(streams)), "export"),
])  # fmt: skip
def test_faulty_stream_is_a_finding(monkeypatch, name, replacement, code, few_cases):
    monkeypatch.setattr(conformance, name, replacement)
    assert code in {finding.code for finding in check_plugin(MapEBorderRelay).findings}


def test_faulty_technology_does_not_conform():
    with pytest.raises(AssertionError, match="frame 0: IPv4: "):
        assert_conforms(WRONG_CHECKSUM)


@pytest.mark.parametrize(("kind", "words"), [(RAISING, "goood"), (faulty(refuse), "hop limit")])
def test_error_in_technology_is_found_with_file_and_line(kind, words, few_cases):
    text = next(f.text for f in check_plugin(kind).findings if words in f.text)
    assert "test_conformance.py, line " in text


def test_missing_translation_is_named(few_cases):
    kind = faulty(translate_reverse=StatelessTechnology.translate_reverse)
    assert any("translate_reverse" in finding.text for finding in check_plugin(kind).findings)


@pytest.mark.parametrize(("kind", "noted"), [(Nat44, True), (MapEBorderRelay, False)])
def test_technology_without_negative_traffic_is_noted(kind, noted, few_cases):
    assert bool(check_plugin(kind).notes) is noted


def test_check_command_reports_conformance_and_number_of_checks():
    done = v6t("plugins", "--check", "dns64")
    assert done.status == 0 and "dns64 conforms" in done.out
    report = json.loads(v6t("plugins", "--check", "--json", "dns64").out)
    assert report["findings"] == [] and report["checks"] > 2
