"""Every built-in plugin conforms; one with a fault does not, and the fault is named."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import Field
from v6t.base.errors import UsageError
from v6t.core.config.plugins import load_plugin, names
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.base import Expected
from v6t.plugins.conformance import assert_conforms, check
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.nat44 import Nat44
from v6t.profiles.model import FramePair, Layer, Traffic
from v6t.tests.core.support import v6t
from v6t.tests.plugins import foreign_stateful
from v6t.tests.plugins.foreign import ALL

pytestmark = pytest.mark.slow

OWN = [name for name in names() if load_plugin(name).__module__.startswith("v6t.plugins.")]


@pytest.mark.parametrize("name", OWN)
def test_every_built_in_plugin_conforms(name):
    assert len(OWN) >= 16
    assert_conforms(load_plugin(name))


@pytest.mark.parametrize("kind", [*ALL, foreign_stateful.TcpNat])
def test_plugins_of_other_protocols_conform(kind):
    assert_conforms(kind)


def test_what_trex_cannot_compute_is_told():
    """Queries' identifiers change ICMP's checksum: the embedded tester computes it, TRex cannot."""
    found = check(foreign_stateful.QueryNat).findings
    assert found
    assert all("ICMP" in str(finding) for finding in found)


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


class Untagged(MapEBorderRelay):
    def traffic(self, direction, sizes, seed=1):
        made = super().traffic(direction, sizes, seed)
        classes = tuple(
            replace(c, layers=tuple(layer for layer in c.layers if layer.name != "Dot1Q"))
            for c in made.classes
        )
        return Traffic(made.direction, classes, made.seed)


class BadTraffic(MapEBorderRelay):
    def traffic(self, direction, sizes, seed=1):
        made = super().traffic(direction, sizes, seed)
        classes = tuple(
            replace(
                c,
                layers=tuple(
                    Layer("UDP", {**layer.fields, "chksum": 7}) if layer.name == "UDP" else layer
                    for layer in c.layers
                ),
            )
            for c in made.classes
        )
        return Traffic(made.direction, classes, made.seed)


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
    (WrongChecksum, "out of expect(): frame 0: IPv4: the header checksum is wrong"),
    (WrongTotalLength, "out of expect(): frame 0: IPv6: payload length is wrong by"),
    (Longer, "frame_pair says"),
    (Immortal, "frames with a TTL or hop limit of 1 are forwarded"),
    (Undescribed, "parameter 'secret' has no description"),
    (Required, "parameter 'wanted' has no default"),
    (Unpicklable, "it cannot be pickled"),
    (LosesParams, "parameters or links are others after pickling"),
    (Unreasonable, "expect() gives drop reason 99, but the technology has"),
    (Open, "48 of 48 are forwarded"),
    (Random, "traffic() with one seed is not the same twice"),
    (Untagged, "frames are not tagged with VLAN 7"),
    (BadTraffic, "UDP: the checksum is wrong"),
    (Meddling, "expect() changes the frames it is given"),
    (Unmarked, "the last 16 octets, the tester's mark, are not those sent"),
    (Raising, "NameError: name 'goood' is not defined"),
    (Untyped, "the configuration of dut_intent() is {'rules': []}, not a DeviceConfig"),
    (Crooked, "frame_pair refuses its own frame size of 9000 octets"),
    (Upside, "ip_versions says 4"),
    (ForwardsAll, "frames with a TTL or hop limit of 1 are forwarded"),
]


@pytest.mark.parametrize(("kind", "said"), FAULTS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_fault_is_found_and_named(kind, said):
    with pytest.raises(AssertionError) as failed:
        assert_conforms(kind)
    assert said in str(failed.value)


def test_an_authors_own_parameters_are_checked():
    assert_conforms(MapEBorderRelay, MapEParams(ttl=9))


def test_a_mistake_names_file_and_line():
    told = next(f.said for f in check(Raising).findings if "goood" in f.said)
    assert "test_conformance.py, line " in told


def test_a_refusal_names_the_line_that_asked_for_it():
    told = next(f.said for f in check(Refusing).findings if "hop limit" in f.said)
    assert "test_conformance.py, line " in told


@pytest.mark.parametrize(
    ("kind", "code"),
    [(WrongChecksum, "header"), (Immortal, "hop-limit"), (Untagged, "vlan"), (Raising, "error")],
)
def test_check_of_a_faulty_plugin_returns_the_code(kind, code):
    assert code in {finding.code for finding in check(kind).findings}


def test_without_negative_traffic_it_says_so():
    assert check(Nat44).notes
    assert not check(MapEBorderRelay).notes


def test_the_command_says_what_was_checked():
    done = v6t("plugins", "--check", "ipv6-router")
    assert done.status == 0
    assert "ipv6-router conforms" in done.out
    told = json.loads(v6t("plugins", "--check", "--json", "ipv6-router").out)
    assert told["findings"] == []
    assert told["checks"] > 10


def test_the_command_fails_with_the_findings(monkeypatch):
    monkeypatch.setattr("v6t.core.config.plugins.load_plugin", lambda name: WrongChecksum)
    done = v6t("plugins", "--check", "mape-br")
    assert done.status == 2
    assert "IPv4: " in done.out
    assert done.code == "not-conformant"


def test_the_command_wants_a_name():
    done = v6t("plugins", "--check")
    assert done.status == 2
    assert "which plugin" in done.err
