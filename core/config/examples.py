"""The example files of ``v6t init``."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from v6t.base.errors import EnvironmentLacking, UsageError

RUN = """\
# What to measure. `v6t run run.yaml --testbed testbed.yaml`; flags win over this file.
plugin: mape-br            # `v6t plugins` lists them, `v6t plugins mape-br` explains the parameters
params:
  rule_ipv6: 2001:db8:ce::/51
  rule_ipv4: 192.0.2.0/24
  ea_len: 13
  psid_offset: 6           # RFC 7597's default; 0 in the Mapperf paper
  ces: 1000                # simulated CEs; all: drawn uniformly from the whole rule
  # n: 10                  # foreground is m of n frames, the rest native IPv6
  # m: 9
  # negative_percent: 1    # frames the BR must drop
preset: quick              # quick: a demonstration of a minute; rfc: 60 s trials, 20 repetitions
benchmarks: [throughput]   # frame-loss, back-to-back, latency, pdv, ipdv, system-recovery, reset
modes: [bidirectional, forward, reverse]
frame_sizes: [104]         # octets of the IPv6 frame, FCS included: 104 carries 64 octets of IPv4
procedure:                 # replaces single values of the preset
  repetitions: 2
  # trial_duration_s: 60
  # loss_tolerance: 0.0    # share, checked in each direction; 0 is the RFC's
  # resolution_fps: 1000
  # confirmations: 0       # times a found rate must pass again
  # search: binary         # mlrsearch: a fraction of the time, by the PyPI library
  # latency: {duration_s: 120, tags: 50000, first_tag_s: 60}
  # delay_variation: {duration_s: 60}
  # frame_loss: {step: 0.1}              # or rates_fps: [1e6, 9e5] for a list of rates
  # back_to_back: {repetitions: 50, at: media}
seed: 1
label: ""
"""

TESTBED = """\
# On what to measure.
tester:
  kind: auto               # embedded (namespaces of this machine), trex or sim (virtual time)
  # options: {capacity_fps: 1000000, loss_probability: 0.01}   # of the simulated device
dut:
  driver: reference        # the plugin's own reference translation; others: v6t dut plan --help
  # options:
  #   params: {psid_offset: 5}          # what the device alone believes: see a wrong one caught
  #   hooks: {software-reset: ssh dut systemctl restart relay}   # commands for the reset benchmark
  #   faults: {drop_every: 0, duplicate_every: 0, corrupt_octet: -1, slow_ns: 0}
  ## Instead of both, a device over SSH that v6t configures, reads back, flushes and puts back:
  ##   {driver: vpp, options: {left: TenGigabitEthernet3/0/0, right: TenGigabitEthernet3/0/1,
  ##                           ssh: {host: dut.example.net, user: root}}}   # v6t dut --help
links:                     # left carries IPv6, right IPv4
  left: {tester_mac: "02:00:00:00:01:02", dut_mac: "02:00:00:00:01:01", mtu: 1500}
  right: {tester_mac: "02:00:00:00:02:02", dut_mac: "02:00:00:00:02:01", mtu: 1500}
  # a vlan (1 to 4094) within left or right tags the frames of that link; with one in both,
  # a background with a vlan within both (docs/method.md) gives native IPv6 its own
line_rate: 10G             # the medium's limit; the tester's own is measured
## With TRex, in place of the tester above (v6t explain tester.options says what there is):
## tester:
##   kind: trex
##   options: {trex_dir: /opt/trex/v3.08, interfaces: ["03:00.0", "03:00.1"]}     # left, right
##   options: {lab: true}                                          # to try it without NICs
"""


def write_examples(directory: Path) -> list[Path]:
    """Write both files; none is ever overwritten."""
    return write_files({directory / "run.yaml": RUN, directory / "testbed.yaml": TESTBED})


def write_files(wanted: Mapping[Path, str]) -> list[Path]:
    """Write files of one directory, all or none if one exists."""
    for path in wanted:
        if os.path.lexists(path):
            raise UsageError(
                f"{path} exists already", "choose another directory with --dir", code="file-exists"
            )
    created: list[Path] = []
    try:
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as out:
                created.append(path)
                out.write(text)
    except OSError as exc:
        for written in created:
            written.unlink(missing_ok=True)
        problem = f"cannot write {path}: {exc.strerror}"
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free space on the disk, or choose another directory with --dir"
            raise EnvironmentLacking(problem, hint, code="disk-full") from exc
        raise UsageError(problem, code="file-unwritable") from exc
    return list(wanted)
