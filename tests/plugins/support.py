"""Make technologies by name, their frames, and packet-level devices that translate them."""

from enum import IntEnum
from importlib.metadata import entry_points
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import numpy as np
import yaml
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.run_setup import make_technology
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.walker import locate_headers
from v6t.plugins.base import Link, Links
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role

FIGURE_8 = {
    "rule_ipv6": "2001:db8:ce::/51", "rule_ipv4": "192.0.2.0/24", "ea_len": 13, "psid_offset": 0,
}  # fmt: skip
"""Rule of Figure 8 in the Mapperf paper."""
BUILT_IN = tuple(
    sorted(e.name for e in entry_points(group="v6t.plugins") if e.value.startswith("v6t.plugins."))
)
STATELESS = (
    "clat", "ipv4-router", "ipv6-router", "lwaftr", "lwb4",
    "mape-br", "mape-ce", "mapt-br", "mapt-ce", "siit"
)  # fmt: skip
"""Stateless technologies with background traffic; NPTv6 has none because both its sides are IPv6."""
VARIANTS = tuple({"variant": v} for v in ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t"))
MAC = "02:00:00:00:01:02", "02:00:00:00:01:01", "02:00:00:00:02:02", "02:00:00:00:02:01"
_LEFT, _RIGHT = ({"tester_mac": MAC[n], "dut_mac": MAC[n + 1]} for n in (0, 2))
TAGGED = Links(Link(**_LEFT, vlan=7), Link(**_RIGHT, mtu=2000))


class MapeDrop(IntEnum):
    FORWARDED = 0
    NOT_OURS = 1
    NO_TUNNEL = 2
    TTL = 3
    NO_RULE = 4
    BAD_IID = 5
    BAD_SOURCE = 6
    BAD_PORT = 7
    NO_DESTINATION = 8
    NO_PORT = 9
    TOO_BIG = 10
    ECN_DROP = 11


def make(name, links=None, /, **params):
    kind = load_technology_type(name)
    return kind(kind.params_model.model_validate(params), links)


def make_checked(name, params):
    """Make a technology as a run does, which also checks its addresses."""
    kind = load_technology_type(name)
    return make_technology(kind, kind.params_model.model_validate(params), Links())


def load_vectors(name):
    """Read a YAML table from the directory ``vectors``."""
    return yaml.safe_load((Path(__file__).parent / "vectors" / f"{name}.yaml").read_text())


def make_mape_br(links=None, **params):
    return make("mape-br", links, **params)


def compile_streams(plugin, direction, size=None, seed=1):
    """Compile the streams of one direction, by default for the first default frame size."""
    sizes = plugin.make_frame_pair(size or plugin.default_frame_sizes[0])
    return compile_traffic(plugin.build_traffic(direction, sizes, seed)).streams


def stream_frames(plugin, direction, count, *, size=None, seed=1, first=0):
    """Return ``count`` frames of each traffic class, by class name."""
    streams = compile_streams(plugin, direction, size, seed)
    return {s.name: Expander(s).compute_frames(first, count) for s in streams}


def first_frames(plugin, direction, count, size=None):
    """Return the first frames of the first traffic class."""
    return Expander(compile_streams(plugin, direction, size)[0]).compute_frames(0, count)


def read_addresses(frames, at, octets):
    """Return the distinct addresses at an offset of the frames, as text."""
    kind = IPv4Address if octets == 4 else IPv6Address
    return {str(kind(row.tobytes())) for row in np.unique(frames[:, at : at + octets], axis=0)}


def read_numbers(frames, at, octets):
    """Return the big-endian number of up to 8 octets at an offset of each frame, as uint64."""
    padded = np.zeros((len(frames), 8), dtype=np.uint8)
    padded[:, 8 - octets :] = frames[:, at : at + octets]
    return padded.view(">u8")[:, 0].astype(np.uint64)


def make_device(technology):
    """Make a packet-level device that, like the reference translation, accepts private servers."""
    device = build_device(technology)
    if isinstance(device, TranslatingDevice):
        device.checks_global = False
    return device


def forward_frames(device, direction, frames):
    """Return the frame that a packet-level device forwards for each frame, or no octets if it drops it."""
    side, opposite = ("left", "right") if direction == "forward" else ("right", "left")
    received = (device.receive(side, frame.tobytes()) for frame in frames)
    return [next((octets for at, octets in sent if at == opposite), b"") for sent in received]


def list_emitted(answer):
    """Return the octets of each frame of a reference translation."""
    rows = zip(answer.frames, answer.length, strict=True)
    return [frame[:length].tobytes() for frame, length in rows]


CONNECTIONS = 48


def establish(plugin, device, size=108):
    """Return first frames of connections, the frames that leave the device, and learned four-tuples."""
    frames = first_frames(plugin, "forward", CONNECTIONS, size)
    out = forward_frames(device, "forward", frames)
    assert all(out)
    row = slice(22, 58) if plugin.ip_versions[1] == 6 else slice(26, 38)
    return frames, out, np.array([list(o[row]) for o in out], dtype=np.uint8)


def make_responses(plugin, learned, size=108):
    """Return the Responder's frames of the connections that it learned."""
    (template,) = [s for s in compile_streams(plugin, "reverse", size) if s.role is Role.FOREGROUND]
    back = np.repeat(Expander(template).compute_frames(0, 1), len(learned), axis=0)
    half = 16 if plugin.ip_versions[1] == 6 else 4
    swapped = np.roll(learned[:, :-4], half, axis=1), learned[:, -2:], learned[:, -4:-2]
    start = 22 if half == 16 else 26
    back[:, start : start + learned.shape[1]] = np.concatenate(swapped, axis=1)
    if half == 4:
        write_ipv4_checksum(back, 14)
    locate_headers(back[0]).write_checksum(back)
    return back
