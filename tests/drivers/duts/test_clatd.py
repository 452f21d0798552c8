"""A real clatd with Debian's TAYGA in the lab, if this machine has one: in PATH, or named by V6T_CLATD."""

from __future__ import annotations

from dataclasses import replace

import pytest
from v6t.core.config.files import Flags
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.profiles.errors import DutError
from v6t.tests.drivers import matrix

from . import sshserver
from .bench import proven, standing, traffic_classes
from .cases import CASES

POSSIBLE, WHY = available()
OWN = {"program": matrix.program("clatd")}
INTENT = next(c.intent for c in CASES if c.name == "clatd-clat")
LACKING = matrix.lacking("embedded", matrix.Row("clatd", "clat", ""))


def lab(function):
    for mark in (
        pytest.mark.lab,
        pytest.mark.skipif(not POSSIBLE, reason=WHY),
        pytest.mark.skipif(bool(LACKING), reason=LACKING),
    ):
        function = mark(function)
    return function


@lab
def test_every_frame_is_the_reference_translation():
    finding, _, described = proven(Flags("clat", dut="clatd", dut_params=OWN))
    assert finding is None
    assert described["version"][0].isdigit()


@lab
def test_traffic_classes_are_copied():
    octets = [(octet, octet) for octet in (0, 1, 2, 3, 0xB8, 0xB9)]
    for pair, (why, told) in traffic_classes("clat", octets, dut="clatd", **OWN).items():
        assert why == "", pair
        kinds = {what for what in told if "TOS" in what or "traffic class" in what}
        if pair[0]:
            assert len(kinds) == 2
            assert all("copied" in kind for kind in kinds)


OF_THE_KERNEL = ["0: from all lookup local", "32766: from all lookup main"]


def gone(bed):
    """Nothing of it is left: rules of routing are the kernel's own."""
    run = bed.session.transport.run
    left = run("ls -A /run/v6t; ip -o link").out
    assert "clatd" not in left
    assert "v6t-nat64" not in left
    assert [" ".join(line.split()) for line in run("ip -6 rule").out.splitlines()] == OF_THE_KERNEL


@lab
@pytest.mark.parametrize("way", ["directly", "over ssh"])
@pytest.mark.parametrize("fate", ["at work", "killed", "tayga killed"])
def test_it_is_configured_read_back_and_put_back(way, fate):
    if way == "over ssh" and (package := sshserver.lacking()):
        pytest.skip(f"needs {package}")
    more = {"ssh": {"lab": sshserver.unique("clatd")}} if way == "over ssh" else {}
    with standing("clatd", INTENT, **OWN, **more) as bed:
        run = bed.session.transport.run
        assert len(bed.session.verify()) > 5
        figures = bed.dut.report()
        assert figures["process"]
        assert "tx.dropped" in figures["tun v6t-nat64"]
        rules = run("ip -6 rule").out
        assert "lookup 49575" in rules
        assert rules.startswith("0:\tfrom 2001:db8:64::/96 to 2001:2:0:2::2 lookup 49575")
        if fate == "killed":
            run("kill -9 $(cat /run/v6t/clatd.pid)")
        elif fate == "tayga killed":
            run("kill $(ps -o pid= --ppid $(cat /run/v6t/clatd.pid)); sleep 0.5")
        assert any("undone" in line for line in bed.session.restore())
        gone(bed)


@lab
def test_it_is_the_clat_of_464xlat():
    own = {**OWN, "queue_length": "5000", "mend_checksums": "true"}
    parts = {f"parts.clat.options.{name}": value for name, value in own.items()}
    flags = Flags(
        "ipv4aas",
        params={"variant": "464xlat"},
        dut="chain",
        dut_params={"parts.clat.driver": "clatd", **parts},
    )
    finding, _, described = proven(flags)
    assert finding is None
    assert described["parts"]["clat"]["kind"] == "clatd"


def test_a_device_without_it_says_so():
    driver = make_driver("clatd", {"program": "/nowhere/clatd"})
    with pytest.raises(DutError, match="has no clatd") as info:
        driver.read_version("sh: 1: /nowhere/clatd: not found")
    assert info.value.hint == "set dut.options.program to where it is"
    with pytest.raises(DutError, match="lacks Net::IP") as info:
        driver.read_version("Can't locate Net/IP.pm in @INC (you may need to install ...")
    assert info.value.hint == "apt-get install libnet-ip-perl"
    assert driver.read_version("clatd v2.1.0 - a 464XLAT (RFC 6877) CLAT and ...") == "2.1.0"


def test_the_module_nat46_is_another_device():
    driver = make_driver("clatd", {})
    facts = replace(driver.example(INTENT), sections={"nat46": "/proc/net/nat46/control\n"})
    with pytest.raises(DutError, match="takes in place of TAYGA"):
        driver.plan(INTENT, facts)
