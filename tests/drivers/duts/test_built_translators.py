"""Translators: handling of traffic classes in the lab, and versions of programs and modules."""

import hashlib

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import summarize_samples
from v6t.tests.drivers import matrix
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from . import intents
from .bench import EQUAL_OCTETS, TRANSLATION, measure_traffic_classes, open_bed
from .support import read_captured, run_shell

KEYS, NAMES = (matrix.MULTIQUEUE, "tundra"), ("nftables-nat44", "tayga-siit")
ROWS = [row for row in matrix.ROWS if row.program_key in KEYS or row.name in NAMES]


def make_lab_param(row):
    """Make a test parameter that needs the lab and the program."""
    missing = matrix.find_missing("embedded", row)
    skip = pytest.mark.skipif(bool(missing), reason=missing)
    return pytest.param(row, id=row.name, marks=[pytest.mark.lab, needs_lab, skip])


@pytest.mark.parametrize("row", [make_lab_param(row) for row in ROWS])
def test_traffic_class_handling_is_allowed_and_reported(row):
    options = {"dut": row.device, **row.driver_options}
    measured = measure_traffic_classes(row.plugin, EQUAL_OCTETS, **options)
    for pair, (why, behaviours) in measured.items():
        assert why == "", pair
        kinds = {what for what in behaviours if "TOS" in what or "traffic class" in what}
        if pair[0]:
            assert kinds == (set() if row.plugin == "nat44" else TRANSLATION)


UNKNOWN = "tayga: unrecognized option '--help'\n0.9.2-8"  # output of version 0.9.2


@pytest.mark.parametrize(("driver", "output", "version"), [
    ("tayga", UNKNOWN, "0.9.2-8"),
    ("tayga", "Usage: tayga ...\n", "unknown"),
    ("tayga", "TAYGA version 0.9.6\n0.9.2-8", "0.9.6"),
    ("tayga", "TAYGA version 0.9.6-16-g8a028c7\n", "0.9.6-16-g8a028c7"),
    ("tayga", "TAYGA version 0.9.7", "0.9.7"),
    ("tayga", "", "unknown"),
    ("tundra", "Tundra-NAT64 / v6.0.2 / Copyright (c) 2024", "6.0.2"),
    ("snabb-lwaftr", "snabb 2022.07 (396-gf32729274-dirty)\n", "2022.07-396-gf32729274-dirty"),
    ("snabb-lwaftr", "snabb 2024.08\n", "2024.08"),
    ("jool", read_captured("jool-version.txt"), "4.1.9"),
    ("jool", "4.1.255.5\n4.1.255.5\n", "4.2.0-rc3"),  # as published
    ("jool", "4.1.255.9\n", "4.1.255.9"),
])  # fmt: skip
def test_version_is_read_from_program_or_package(driver, output, version):
    assert make_driver(driver, {}).extract_version(output) == version


@pytest.mark.parametrize(("driver", "output", "code", "words"), [
    ("tundra", "sh: 1: /nowhere/tundra-nat64: not found", "unexpected-answer", "tundra"),
    ("jool", "4.1.10.0\n4.1.9.0\n", "version-mismatch", "4.1.10"),  # module and program
])  # fmt: skip
def test_missing_or_different_program_is_rejected(driver, output, code, words):
    with expect_error(code, mentions=words):
        make_driver(driver, {}).extract_version(output)


def test_nat46_version_is_module_checksum(tmp_path):
    module = tmp_path / "nat46.ko"
    module.write_bytes(b"v6t")
    digest = hashlib.sha256(b"v6t").hexdigest()[:12]
    versions = []
    for name in (str(module), "no_such_module", str(tmp_path / "none.ko")):
        driver = make_driver("nat46", {"module": name})
        output = run_shell(driver.version_command, "", check=False).stdout
        versions.append(driver.extract_version(output))
    assert versions == [f"module {digest} (SHA-256)", "unknown", "unknown"]


SNABB = matrix.find_program("snabb-lwaftr")


@pytest.mark.lab
@needs_lab
@pytest.mark.alone
@pytest.mark.skipif(not SNABB, reason="no snabb in PATH; V6T_SNABB may name one")
def test_unfetched_frames_are_counted_as_device_losses():
    """The worker is stopped, because a polling core always looks busy."""
    intent = intents.make_lwaftr()
    link = intent.links.left
    frame = bytes(Ether(src=link.tester_mac, dst=link.dut_mac) / IPv6(dst="2001:db8:6::1", nh=4))
    with open_bed("snabb-lwaftr", intent, program=SNABB) as bed:
        shell = bed.session.transport
        samples = [bed.session.read_sample()]
        worker = "$(ps -o pid= --ppid $(cat /run/v6t/snabb.pid))"
        assert shell.run(f"kill -STOP {worker}").status == 0
        for _ in range(3000):
            bed.left.send(frame)
        samples.append(bed.session.read_sample())
        shell.run(f"kill -CONT {worker}")
    summary = summarize_samples(samples)
    assert summary.polls and summary.cores
    assert summary.drops["sockets dropped"] > 1000
    verdict = judge_device(samples, lost=3000)
    assert verdict.limited_by == "cpu", verdict
    assert "it polls" in verdict.explanation
