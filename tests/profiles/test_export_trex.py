"""Compiled streams loaded and simulated by TRex, whose installation TREX_DIR names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.exports import to_stl_json, to_stl_py
from v6t.profiles.model import Kind, Traffic, Variable

from .test_template import rebuild
from .traffics import FOUR_IN_SIX, Binding, make_background, make_mape, make_traffic
from .vm import Machine

TREX = os.environ.get("TREX_DIR", "")
CLIENT = Path(TREX) / "automation" / "trex_control_plane" / "interactive"
HAS_CLIENT = bool(TREX) and (CLIENT / "trex" / "stl").is_dir()

needs_client = pytest.mark.skipif(
    not HAS_CLIENT, reason="needs TRex: set TREX_DIR to the directory with t-rex-64"
)
needs_simulator = pytest.mark.skipif(
    not HAS_CLIENT or not Path(TREX, "bp-sim-64").exists(),
    reason="needs TRex with its simulator: set TREX_DIR to the directory with bp-sim-64",
)

# a separate process, because TRex replaces scapy and yaml by its own versions
CHILD = """
import html, json, sys, types, warnings
cgi = types.ModuleType("cgi")
cgi.escape = html.escape
sys.modules.setdefault("cgi", cgi)
sys.path.insert(0, {client!r})
warnings.simplefilter("ignore")
from trex.stl.api import STLProfile
from trex.stl.trex_stl_sim import STLSim
{body}
"""


def run_client(body):
    code = CHILD.format(client=str(CLIENT), body=body)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def simulate(streams, directory, limit, cores=1):
    """Return the frames that each core of TRex's simulator sends, with checksums computed by scapy."""
    profile = directory / f"v6t_{cores}.json"
    profile.write_text(to_stl_json(streams))
    captures = [directory / f"{cores}_{core}.pcap" for core in range(cores)]
    body = [f"sim = STLSim({TREX!r})"]
    body += [
        f"sim.run([{os.fspath(profile)!r}], {os.fspath(capture)!r}, dp_core_count={cores}, "
        f"dp_core_index={core}, is_debug=False, pkt_limit={limit}, tunables=[], silent=True)"
        for core, capture in enumerate(captures)
    ]
    run_client("\n".join(body))
    # the simulator does not compute the checksums of fix_checksum_hw, which a NIC would compute
    return [[rebuild(bytes(f)) for f, _ in RawPcapReader(os.fspath(c))] for c in captures]


def make_samples():
    everything = (
        Variable("uni", 13), Variable("port", 16), Variable("range", 16, low=1, high=49151),
        Variable("perm", 24, Kind.PERMUTATION),
        Variable("list", 40, Kind.LIST, values=[1, 1 << 39, 12345678901]),
        Variable("down", 16, Kind.DEC, 5, 1000, 7),
    )  # fmt: skip
    bind = (
        Binding("uni", "IPv6.src", 51, 63), Binding("uni", "UDP.sport", 0, 4, 8, 12),
        Binding("port", "IP.id", 0, 15), Binding("range", "UDP.dport", 0, 15),
        Binding("perm", "IPv6.dst", 101, 124), Binding("list", "IPv6.src", 70, 109),
        Binding("down", "IP.src", 15, 30, add=9),
    )  # fmt: skip
    mixed = Binding("v", "IPv6.src", 104, 119, 0, 15), Binding("v", "UDP.sport", 0, 14, 16, 30)
    permutation = Variable("v", 16, Kind.PERMUTATION)
    apart = Variable("v", 31, Kind.PERMUTATION, apart=2)
    wide = (Binding("v", "IPv6.src", 79, 126),)
    return {
        "mape": Traffic("forward", (make_mape(),)),
        "enumerated": Traffic("forward", (make_mape(Kind.PERMUTATION),)),
        "background": Traffic("forward", (make_background(),)),
        "everything": make_traffic(*everything, bind=bind, layers=FOUR_IN_SIX),
        "neutral": make_traffic(permutation, bind=(Binding("v", "UDP.sport", 0, 15),)),
        "mixed": make_traffic(apart, bind=mixed, layers=FOUR_IN_SIX),
        "wide": make_traffic(Variable("v", 48, Kind.DEC), bind=wide),
    }


@pytest.mark.trex
@needs_client
@pytest.mark.parametrize("name", make_samples())
@pytest.mark.parametrize("kind", ["json", "py"])
def test_trex_loads_streams_unchanged_from_files(name, kind, tmp_path):
    streams = compile_traffic(make_samples()[name], frames=1000)
    path = tmp_path / f"v6t_{name}.{kind}"
    path.write_text(to_stl_json(streams) if kind == "json" else to_stl_py(streams))
    out = run_client(f"print('JSON', json.dumps(STLProfile.load({str(path)!r}).to_json()))")
    loaded = json.loads(out.partition("JSON ")[2])
    assert loaded == [json.loads(json.dumps(s.trex)) for s in streams.streams]


@pytest.mark.trex
@needs_simulator
@pytest.mark.parametrize("name", make_samples())
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_trex_sends_frames_of_program(name, cores, tmp_path):
    streams = compile_traffic(make_samples()[name], frames=120 * cores, cores=cores)
    for core, sent in enumerate(simulate(streams, tmp_path, 120 * cores, cores)):
        assert sent == Machine(streams.streams[0], core, cores).take(120)
