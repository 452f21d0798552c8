"""What the opened tester says against its own figures and against the testbed."""

from __future__ import annotations

import pytest
from v6t.core.config.cautions import cautions, of_medium
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve, resolve_and_bind


def test_a_mac_address_that_is_not_the_nics_is_told():
    run = resolve(flags=Flags(plugin="mape-br", tester="sim"))
    port = {"index": 1, "driver": "net_i40e", "hw_mac": "3C:FD:FE:00:00:03"}
    (said,) = of_medium(run, {"ports": [{**port, "tester_mac": "3c:fd:fe:00:00:13"}]})
    assert "port 1 of the tester has the MAC address 3C:FD:FE:00:00:03, but links say" in said
    assert of_medium(run, {"ports": [{**port, "tester_mac": "3c:fd:fe:00:00:03"}]}) == []
    virtual = {**port, "virtual": True, "tester_mac": "3c:fd:fe:00:00:13"}
    assert of_medium(run, {"ports": [virtual]}) == []


@pytest.mark.parametrize(
    ("tester", "words"),
    [
        ({"ports": [{"numa": 0}, {"numa": 1}]}, "NUMA nodes 0 and 1"),
        (
            {"ports": [{"index": 1, "prom": "off", "hw_mac": "3c:fd:fe:00:00:03"}]},
            "not promiscuous",
        ),
        ({"clock_source": "hpet"}, "clock source is hpet"),
    ],
)
def test_what_spoils_a_testers_figures_is_said_in_the_run(tester, words):
    run = resolve(flags=Flags(plugin="mape-br", tester="sim"))
    (said,) = of_medium(run, tester)
    assert words in said


def test_ports_that_hear_only_their_own_address_are_named_but_not_in_the_lab():
    run = resolve(flags=Flags(plugin="mape-br", tester="sim"))
    deaf = [{"index": n, "prom": "off", "hw_mac": f"3c:fd:fe:00:00:0{n}"} for n in (0, 1)]
    (said,) = of_medium(run, {"ports": deaf})
    assert said.startswith("ports 0 and 1 of the tester are not promiscuous")
    assert of_medium(run, {"ports": deaf}, in_lab=True) == []


def test_a_sound_tester_is_not_remarked_on():
    run = resolve(flags=Flags(plugin="mape-br", tester="sim"))
    own = run.links_left.tester_mac.upper()
    ports = [
        {"index": 0, "numa": 0, "prom": "off", "hw_mac": own},
        {"index": 1, "numa": 0, "prom": "on", "hw_mac": "3c:fd:fe:00:00:03"},
        {"index": 2, "numa": -1, "prom": "N/A", "hw_mac": "3c:fd:fe:00:00:04"},
    ]
    for clock in ("tsc", "kvm-clock", None, ""):
        assert of_medium(run, {"ports": ports, "clock_source": clock}) == []


@pytest.mark.parametrize("tester", ["embedded", "sim"])
def test_a_device_elsewhere_is_not_reached_without_ssh(tester, tmp_path, monkeypatch):
    """Said by a dry run, too, which needs none; of a device that nobody drives it is not."""
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: linux-router, options: {ssh: {lab: elsewhere}}}")
    bound = resolve_and_bind(None, bed, Flags(plugin="ipv4-router", tester=tester))
    said = "there is no ssh, by which the device is reached: apt-get install openssh-client"
    assert said not in cautions(bound)
    monkeypatch.setenv("PATH", "/nowhere")
    assert (said in cautions(bound)) is (tester == "embedded")
    near = resolve_and_bind(flags=Flags(plugin="ipv4-router", tester=tester, dut="linux-router"))
    assert said not in cautions(near)
