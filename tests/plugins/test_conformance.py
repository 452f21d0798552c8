"""Every built-in plugin conforms; one with a fault does not, and the fault is named."""

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


@pytest.mark.parametrize("name", [*BUILT_IN, "siit nat46", *ALL, foreign_stateful.TcpNat])
def test_built_in_technology_conforms(name):
    if isinstance(name, str):
        kind = load_plugin(name.split()[0])
        given = {"orientation": "nat46"} if name == "siit nat46" else None
        assert_conforms(kind, kind.params_model(**given) if given else None)
    else:
        assert_conforms(name)


def test_checksum_that_trex_cannot_compute_is_a_finding():
    findings = check(foreign_stateful.QueryNat).findings
    assert findings
    assert all("ICMP" in str(finding) for finding in findings)


def flip_octet(answer, octet):
    frames = answer.frames.copy()
    frames[answer.length > 0, octet] ^= 0x10
    return replace(answer, frames=frames)


def change_layers(traffic, change):
    classes = tuple(replace(c, layers=change(c.layers)) for c in traffic.classes)
    return Traffic(traffic.direction, classes, traffic.seed)


class SpoiltRelay(MapEBorderRelay):
    def expect(self, direction, frames):
        return self.spoil(super().expect(direction, frames), direction, frames)

    def spoil(self, answer, direction, frames):
        return answer

    def traffic(self, direction, sizes, seed=1):
        return self.spoil_traffic(super().traffic(direction, sizes, seed))

    def spoil_traffic(self, sent):
        return sent


class UndescribedParams(MapEParams):
    secret: int = 3


class RequiredParams(MapEParams):
    wanted: int = Field(description="must be given")


class Faults:
    class WrongChecksum(SpoiltRelay):
        code = "header"

        def spoil(self, answer, direction, frames):
            return flip_octet(answer, 25) if direction == "forward" else answer

    class WrongTotalLength(SpoiltRelay):
        code = "header"

        def spoil(self, answer, direction, frames):
            return flip_octet(answer, 19) if direction == "reverse" else answer

    class Longer(MapEBorderRelay):
        code = "overhead"

        def frame_pair(self, ipv6_frame_size):
            pair = super().frame_pair(ipv6_frame_size)
            return FramePair(pair.ipv6, pair.ipv4 - 4)

    class Immortal(MapEBorderRelay):
        code = "hop-limit"

        def expect(self, direction, frames):
            alive = frames.copy()
            ttl = 14 + 40 + 8 if direction == "forward" else 14 + 8
            if frames.shape[1] > ttl:
                ended = alive[:, ttl] == 1
                alive[ended, ttl] = 2
                alive[ended, ttl + 2] -= 1  # the checksum of the header with one TTL more
            return super().expect(direction, alive)

    class Undescribed(MapEBorderRelay):
        code = "description"
        params_model = UndescribedParams

    class Required(MapEBorderRelay):
        code = "default"
        params_model = RequiredParams

    class Unpicklable(MapEBorderRelay):
        code = "pickling"

        def __reduce__(self):
            return type(self), (self.params, self.links, lambda: None)

    class LosesParams(MapEBorderRelay):
        code = "pickling"

        def __reduce__(self):
            return type(self), (MapEParams(ttl=9),)

    class Unreasonable(SpoiltRelay):
        code = "drop-reason"

        def spoil(self, answer, direction, frames):
            return replace(answer, reason=np.where(answer.length == 0, 99, 0).astype(np.uint8))

    class Open(SpoiltRelay):
        code = "negative-forwarded"

        def spoil(self, answer, direction, frames):
            count, size = frames.shape
            if answer.frames.shape[1] and count > 4:
                answer.reason[answer.length == 0] = 0
                answer.length[answer.length == 0] = answer.frames.shape[1]
            elif count > 4 and size > 90:
                return Expected(frames, np.full(count, size, np.int32), np.zeros(count, np.uint8))
            return answer

    class Random(MapEBorderRelay):
        code = "not-repeatable"
        calls = 0

        def traffic(self, direction, sizes, seed=1):
            type(self).calls += 1
            return super().traffic(direction, sizes, seed + self.calls)

    class Untagged(SpoiltRelay):
        code = "vlan"

        def spoil_traffic(self, sent):
            return change_layers(sent, lambda layers: tuple(x for x in layers if x.name != "Dot1Q"))

    class BadTraffic(SpoiltRelay):
        code = "header"

        def spoil_traffic(self, sent):
            return change_layers(sent, lambda layers: tuple(
                Layer("UDP", {**x.fields, "chksum": 7}) if x.name == "UDP" else x for x in layers
            ))  # fmt: skip

    class Meddling(SpoiltRelay):
        code = "input-changed"

        def spoil(self, answer, direction, frames):
            frames[:, :1] ^= 1
            return answer

    class Unmarked(SpoiltRelay):
        code = "trailer"

        def spoil(self, answer, direction, frames):
            if answer.length.any():
                answer.frames[:, -1] ^= 1
            return answer

    class Raising(SpoiltRelay):
        code = "error"

        def spoil(self, answer, direction, frames):
            return frames[goood]  # noqa: F821

    class Untyped(MapEBorderRelay):
        code = "intent"

        def dut_intent(self):
            return replace(super().dut_intent(), configuration={"rules": []})

    class Crooked(MapEBorderRelay):
        code = "frame-size"
        rfc_frame_sizes = (*MapEBorderRelay.rfc_frame_sizes, 9000)

    class Upside(MapEBorderRelay):
        code = "ip-version"
        ip_versions = (4, 6)

    class ForwardsAll(Nat44):
        code = "hop-limit"

        def expect_connections(self, direction, frames, initial, learned):
            alive = frames.copy()
            at = 14 if tuple(alive[0, 12:14]) == (8, 0) else 18
            alive[:, at + 8] = 64
            write_ipv4_checksum(alive, at)
            return super().expect_connections(direction, alive, initial, learned)


class Refusing(SpoiltRelay):
    def spoil(self, answer, direction, frames):
        raise UsageError("no hop limit is left", code="conflict")


FAULTS = [kind for kind in vars(Faults).values() if isinstance(kind, type)]


@pytest.mark.parametrize("kind", FAULTS)
def test_faulty_technology_has_a_finding_with_its_code(kind):
    assert kind.code in {finding.code for finding in check(kind).findings}


def test_faulty_technology_does_not_conform():
    with pytest.raises(AssertionError, match="frame 0: IPv4: "):
        assert_conforms(Faults.WrongChecksum)


@pytest.mark.parametrize(("kind", "words"), [(Faults.Raising, "goood"), (Refusing, "hop limit")])
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
    monkeypatch.setattr("v6t.core.config.plugins.load_plugin", lambda name: Faults.WrongChecksum)
    done = v6t("plugins", "--check", "mape-br")
    assert (done.status, done.code) == (2, "not-conformant")
    assert "IPv4: " in done.out
