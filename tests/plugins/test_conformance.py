"""Every built-in plugin conforms; one with a fault does not, and the fault is named."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import Field
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_plugin
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.base import Expected
from v6t.plugins.conformance import assert_conforms, check
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.nat44 import Nat44
from v6t.profiles.model import FramePair, Layer, Traffic
from v6t.tests.core.support import v6t
from v6t.tests.plugins import foreign_stateful
from v6t.tests.plugins.foreign import ALL

from .support import BUILT_IN

pytestmark = pytest.mark.slow

CASES = [*((name, {}) for name in BUILT_IN), ("siit", {"orientation": "nat46"})]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_built_in_technology_conforms(name, given):
    kind = load_plugin(name)
    assert_conforms(kind, kind.params_model(**given) if given else None)


@pytest.mark.parametrize("kind", [*ALL, foreign_stateful.TcpNat])
def test_technology_of_another_protocol_conforms(kind):
    assert_conforms(kind)


def test_checksum_that_trex_cannot_compute_is_a_finding():
    """Queries' identifiers change ICMP's checksum: the embedded tester computes it, TRex cannot."""
    findings = check(foreign_stateful.QueryNat).findings
    assert findings
    assert all("ICMP" in str(finding) for finding in findings)


def changed(answer: Expected, octet: int) -> Expected:
    frames = answer.frames.copy()
    frames[answer.length > 0, octet] ^= 0x10
    return replace(answer, frames=frames)


class WrongChecksum(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        return changed(answer, 25) if direction == "forward" else answer


class WrongTotalLength(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        return changed(answer, 19) if direction == "reverse" else answer


class Longer(MapEBorderRelay):
    def frame_pair(self, ipv6_frame_size):
        pair = super().frame_pair(ipv6_frame_size)
        return FramePair(pair.ipv6, pair.ipv4 - 4)


class Immortal(MapEBorderRelay):
    def expect(self, direction, frames):
        alive = frames.copy()
        ttl = 14 + 40 + 8 if direction == "forward" else 14 + 8
        if frames.shape[1] > ttl:
            ended = alive[:, ttl] == 1
            alive[ended, ttl] = 2
            alive[ended, ttl + 2] -= 1  # the checksum of the header with one TTL more
        return super().expect(direction, alive)


class Refusing(MapEBorderRelay):
    def expect(self, direction, frames):
        raise UsageError("no hop limit is left", code="conflict")


class UndescribedParams(MapEParams):
    secret: int = 3


class Undescribed(MapEBorderRelay):
    params_model = UndescribedParams


class RequiredParams(MapEParams):
    wanted: int = Field(description="must be given")


class Required(MapEBorderRelay):
    params_model = RequiredParams


class Unpicklable(MapEBorderRelay):
    def __reduce__(self):
        return type(self), (self.params, self.links, lambda: None)


class LosesParams(MapEBorderRelay):
    def __reduce__(self):
        return type(self), (MapEParams(ttl=9),)


class Unreasonable(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        reason = np.where(answer.length == 0, 99, 0).astype(np.uint8)
        return replace(answer, reason=reason)


class Open(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        dropped = answer.length == 0
        if answer.frames.shape[1] and len(frames) > 4:
            answer.length[dropped] = answer.frames.shape[1]
            answer.reason[dropped] = 0
        elif len(frames) > 4 and frames.shape[1] > 90:
            return Expected(
                frames,
                np.full(len(frames), frames.shape[1], np.int32),
                np.zeros(len(frames), np.uint8),
            )
        return answer


class Random(MapEBorderRelay):
    asked = 0

    def traffic(self, direction, sizes, seed=1):
        type(self).asked += 1
        return super().traffic(direction, sizes, seed + self.asked)


def with_layers(traffic, change):
    classes = tuple(replace(c, layers=change(c.layers)) for c in traffic.classes)
    return Traffic(traffic.direction, classes, traffic.seed)


class Untagged(MapEBorderRelay):
    def traffic(self, direction, sizes, seed=1):
        sent = super().traffic(direction, sizes, seed)
        return with_layers(sent, lambda layers: tuple(x for x in layers if x.name != "Dot1Q"))


class BadTraffic(MapEBorderRelay):
    def traffic(self, direction, sizes, seed=1):
        def spoil(layer):
            return Layer("UDP", {**layer.fields, "chksum": 7}) if layer.name == "UDP" else layer

        sent = super().traffic(direction, sizes, seed)
        return with_layers(sent, lambda layers: tuple(map(spoil, layers)))


class Meddling(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        if len(frames):
            frames[:, 0] ^= 1
        return answer


class Unmarked(MapEBorderRelay):
    def expect(self, direction, frames):
        answer = super().expect(direction, frames)
        if answer.length.any():
            answer.frames[:, -1] ^= 1
        return answer


class Raising(MapEBorderRelay):
    def expect(self, direction, frames):
        return super().expect(direction, frames[goood])  # noqa: F821


class Untyped(MapEBorderRelay):
    def dut_intent(self):
        return replace(super().dut_intent(), configuration={"rules": []})


class Crooked(MapEBorderRelay):
    rfc_frame_sizes = (*MapEBorderRelay.rfc_frame_sizes, 9000)


class Upside(MapEBorderRelay):
    ip_versions = (4, 6)


class ForwardsAll(Nat44):
    def expect_connections(self, direction, frames, initial, learned):
        alive = frames.copy()
        at = 14 if tuple(alive[0, 12:14]) == (8, 0) else 18
        alive[:, at + 8] = 64
        write_ipv4_checksum(alive, at)
        return super().expect_connections(direction, alive, initial, learned)


FAULTS = [
    (WrongChecksum, "header"),
    (WrongTotalLength, "header"),
    (Longer, "overhead"),
    (Immortal, "hop-limit"),
    (Undescribed, "description"),
    (Required, "default"),
    (Unpicklable, "pickling"),
    (LosesParams, "pickling"),
    (Unreasonable, "drop-reason"),
    (Open, "negative-forwarded"),
    (Random, "not-repeatable"),
    (Untagged, "vlan"),
    (BadTraffic, "header"),
    (Meddling, "input-changed"),
    (Unmarked, "trailer"),
    (Raising, "error"),
    (Untyped, "intent"),
    (Crooked, "frame-size"),
    (Upside, "ip-version"),
    (ForwardsAll, "hop-limit"),
]


@pytest.mark.parametrize(("kind", "code"), FAULTS, ids=lambda v: getattr(v, "__name__", v))
def test_faulty_technology_has_a_finding_with_its_code(kind, code):
    assert code in {finding.code for finding in check(kind).findings}


def test_faulty_technology_does_not_conform():
    with pytest.raises(AssertionError, match="frame 0: IPv4: "):
        assert_conforms(WrongChecksum)


def test_parameters_of_the_author_are_used():
    assert_conforms(MapEBorderRelay, MapEParams(ttl=9))


@pytest.mark.parametrize(("kind", "words"), [(Raising, "goood"), (Refusing, "hop limit")])
def test_error_names_file_and_line(kind, words):
    said = next(f.said for f in check(kind).findings if words in f.said)
    assert "test_conformance.py, line " in said


@pytest.mark.parametrize(("kind", "noted"), [(Nat44, True), (MapEBorderRelay, False)])
def test_technology_without_negative_traffic_is_noted(kind, noted):
    assert bool(check(kind).notes) is noted


def test_command_prints_the_number_of_checks():
    done = v6t("plugins", "--check", "dns64")
    assert done.status == 0
    assert "dns64 conforms" in done.out
    report = json.loads(v6t("plugins", "--check", "--json", "dns64").out)
    assert report["findings"] == []
    assert report["checks"] > 2


def test_command_with_a_faulty_technology_prints_the_findings(monkeypatch):
    monkeypatch.setattr("v6t.core.config.plugins.load_plugin", lambda name: WrongChecksum)
    done = v6t("plugins", "--check", "mape-br")
    assert (done.status, done.code) == (2, "not-conformant")
    assert "IPv4: " in done.out


def test_command_without_a_name_is_refused():
    assert v6t("plugins", "--check").status == 2
