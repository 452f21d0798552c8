"""Translators without a Debian package: Tundra (V6T_TUNDRA) and a TAYGA with workers (V6T_TAYGA)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from v6t.drivers.duts.kinds.tayga import has_workers
from v6t.drivers.duts.registry import make_driver
from v6t.tests.drivers import matrix
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from . import intents
from .bench import measure_traffic_classes, open_bed
from .cases import CASE_BY_NAME
from .support import make_plan, run_shell


@dataclass(frozen=True)
class Built:
    """Device with a built program and one technology.

    Attributes:
        plugin, device, options: of the command.
        case: of its plan.
        tun: its TUN device.
        program_of: see :class:`v6t.tests.drivers.matrix.Row`.
    """

    plugin: str
    device: str
    case: str = ""
    tun: str = "v6t-nat64"
    options: Mapping[str, str] = field(default_factory=dict)
    program_of: str = ""

    @property
    def own(self):
        """Return the driver's options."""
        return {"program": matrix.find_program(self.program_of or self.device), **self.options}


WORKERS = {"options": matrix.TWO_WORKERS, "program_of": matrix.MULTIQUEUE}
BUILT = [
    Built("siit", "tundra", "tundra-siit"),
    Built("clat", "tundra", "tundra-clat"),
    Built("siit", "tayga", "tayga-siit", **WORKERS),
    Built("clat", "tayga", **WORKERS),
    Built("nat64", "tayga-nftables", "tayga-nftables-nat64", **WORKERS),
]


def make_lab_param(built):
    """Make a test parameter that needs the lab and the built program."""
    missing = f"no program of {built.program_of or built.device}; a variable may name one"
    marks = [
        pytest.mark.lab,
        needs_lab,
        pytest.mark.skipif(not built.own["program"], reason=missing),
    ]
    return pytest.param(built, id=f"{built.device}-{built.plugin}", marks=marks)


@pytest.mark.parametrize("built", [make_lab_param(b) for b in BUILT])
def test_traffic_class_handling_is_allowed_and_reported(built):
    octets = [(octet, octet) for octet in (0, 1, 2, 3, 0xB8, 0xB9)]
    for pair, (why, told) in measure_traffic_classes(
        built.plugin, octets, dut=built.device, **built.own
    ).items():
        assert why == "", pair
        kinds = {what for what in told if "TOS" in what or "traffic class" in what}
        if pair[0]:
            assert len(kinds) == 2
            assert all("copied" in kind for kind in kinds)


@pytest.mark.parametrize("built", [make_lab_param(b) for b in BUILT if b.case])
def test_device_is_configured_verified_and_restored(built):
    with open_bed(built.device, CASE_BY_NAME[built.case].intent, **built.own) as bed:
        assert len(bed.session.verify()) > 5
        assert re.match(r"\d|program [0-9a-f]{12} ", bed.session.describe()["version"])
        figures = bed.dut.report()
        assert figures["process"]
        assert "tx.dropped" in figures[f"tun {built.tun}"]
        bed.session.flush() if bed.session.plan.flush else None
        assert any("undone" in line for line in bed.session.rollback())
        left = bed.session.transport.run("ls -A /run/v6t; ip -o link").out
        assert "left" in left
        assert built.device.partition("-")[0] not in left
        assert built.tun not in left


@pytest.mark.parametrize("device", ["tayga", "tayga-nftables"])
@pytest.mark.parametrize(("workers", "lines"), [(-1, 0), (0, 1), (2, 1)])
def test_workers_option_is_written_to_configuration(device, workers, lines):
    intent = intents.SIIT if device == "tayga" else intents.nat64()
    plan = make_plan(device, intent, workers=workers)
    (file,) = [step.text for step in plan.steps if step.text.startswith("tun-device")]
    assert re.findall(r"(?m)^workers.*", file) == [f"workers {workers}"] * lines


@pytest.mark.parametrize(
    ("said", "version", "workers"),
    [
        # as 0.9.2 answers a question it does not know
        ("tayga: unrecognized option '--help'\n0.9.2-8", "0.9.2-8", False),
        ("Usage: tayga ...\n", "unknown", False),
        ("TAYGA version 0.9.6\n0.9.2-8", "0.9.6", False),
        ("TAYGA version 0.9.6-16-g8a028c7\n", "0.9.6-16-g8a028c7", True),
        ("TAYGA version 0.9.7", "0.9.7", True),
        ("", "unknown", False),
    ],
)
def test_tayga_version_is_read_from_program_or_package(said, version, workers):
    found = make_driver("tayga", {}).extract_version(said)
    assert found == version
    assert has_workers(found) == workers


def test_missing_tundra_is_rejected():
    driver = make_driver("tundra", {})
    with expect_error("unexpected-answer"):
        driver.extract_version("sh: 1: /nowhere/tundra-nat64: not found")
    assert driver.extract_version("Tundra-NAT64 / v6.0.2 / Copyright (c) 2024") == "6.0.2"


def test_nat46_version_is_module_checksum(tmp_path):
    module = tmp_path / "nat46.ko"
    module.write_bytes(b"v6t")
    own = hashlib.sha256(b"v6t").hexdigest()[:12]
    said = {}
    for name in (str(module), "no_such_module", str(tmp_path / "none.ko")):
        driver = make_driver("nat46", {"module": name})
        result = run_shell(driver.version_command, "", check=False)
        said[name] = driver.extract_version(result.stdout)
    assert list(said.values()) == [f"module {own} (SHA-256)", "unknown", "unknown"]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("snabb 2022.07 (396-gf32729274-dirty)\n", "2022.07-396-gf32729274-dirty"),
        ("snabb 2024.08\n", "2024.08"),
    ],
)
def test_snabb_version_contains_commit(said, version):
    assert make_driver("snabb-lwaftr", {}).extract_version(said) == version
