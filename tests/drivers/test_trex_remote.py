"""TRex on a remote host over SSH, with one and two pairs of ports."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.drivers.trex.doctor import examine
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import DelayRequest

from .duts import sshserver
from .duts.support import over_ssh
from .lab_testers import measure_passed, open_tester, write_testbed
from .run_facts import Run, assert_timed

PAGE = Path(__file__).parents[2] / "docs" / "trex.md"
pytestmark = [*over_ssh, needs_lab]


def prepare(host, *interfaces):
    """Prepare interfaces of a host for sending and receiving test frames."""
    for name in interfaces:
        host.shell(
            f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1; ip link set {name} up promisc on"
        )
        host.shell(f"ethtool -K {name} tx off gro off gso off tso off >/dev/null")


def format_ssh_host(name, server, place):
    """Return the ssh_config lines for a host, which is reached through a program in its namespace."""
    return (
        f"Host {name}\n  HostName localhost\n  User root\n"
        f"  IdentityFile {server.directory}/id\n  UserKnownHostsFile {server.directory}/known_hosts\n"
        "  StrictHostKeyChecking yes\n"
        f"  ProxyCommand nsenter -t {server.pid} -n {place}/tunnel\n"
    )


@pytest.fixture
def host(tmp_path):
    """Provide a server with sshd, and an SSH client for it."""
    server = sshserver.Server("trex")
    config = tmp_path / "ssh_config"
    tunnel = "exec 3<>/dev/tcp/127.0.0.1/22 2>/dev/null; cat <&3 & cat >&3; kill %1"
    (tmp_path / "tunnel").write_text(f"#!/bin/bash\n{tunnel}\n")
    (tmp_path / "tunnel").chmod(0o700)
    config.write_text(format_ssh_host("trexhost", server, tmp_path))
    yield server, SshClient(SshOptions(host="trexhost", config=str(config)))
    server.stop()


def test_remote_host_runs_programs_and_sends_files(host, tmp_path):
    server, remote = host
    assert subprocess.check_output(remote.make_command(["echo", "a b; $HOME"])) == b"a b; $HOME\n"
    server.shell(f"printf content >{tmp_path}/file")
    remote.fetch(f"{tmp_path}/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "content"
    with expect_error("download-failed"):
        remote.fetch("/nothing", tmp_path / "none")


@pytest.mark.trex
@needs_trex
def test_remote_trex_measures_trials_on_two_pairs_of_ports(host):
    server, remote = host
    for n in (0, 1):
        server.shell(f"ip link add l{n} type veth peer name r{n}")
        prepare(server, f"l{n}", f"r{n}")
    macs = {"tester_mac": "02:00:00:00:03:01", "dut_mac": "02:00:00:00:03:02"}
    options = {"lab": "false", "trex_dir": os.environ["TREX_DIR"], "ssh": remote.options.host,
               "ssh_config": remote.options.config, "start": "always", "interfaces": "[l0, r0]",
               "pairs": json.dumps([{"ports": (2, 3), "interfaces": ("l1", "r1"), "left": macs}])}  # fmt: skip
    params = {"n": "10", "m": "9"}
    with open_tester("trex", loopback=True, params=params, options=options) as (tester, trial):
        for delays in (None, DelayRequest(tags=100)):
            result = measure_passed(tester, trial, delays=delays)
            for counted in result.directions.values():
                received = {name: count.received for name, count in counted.classes.items()}
                assert received == {"fg": 2700, "bg": 300}
                assert counted.checked == counted.matched > 50
                if delays is not None:
                    assert sum(d.frames + d.lost for d in counted.delays.values()) == 100
        assert tester.describe()["pairs_of_ports"] == 2
        assert tester.describe()["reached_by"].startswith("its own host")
        assert "v6t_trex_4501" in server.shell("nft list tables")
        assert "_t-rex-64" in server.shell("ps -eo args")
        # the server reports the addresses of its ports
        findings = {subject: text for subject, _, text in examine(tester._options)}
        for number, name in enumerate(["l0", "r0"]):
            address = server.shell(f"cat /sys/class/net/{name}/address").strip()
            assert address in findings[f"port {number}"].lower()
    findings = {subject: text for subject, _, text in examine(tester._options)}
    assert "127.0.0.1:4501" in findings["TRex server"]
    assert "_t-rex-64" not in server.shell("ps -eo args")
    assert "v6t_trex" not in server.shell("nft list tables")
    assert "v6t-" not in server.shell("ls /tmp | grep v6t-.*pcap || true")


@pytest.fixture
def connected_hosts(host, tmp_path):
    """Provide a TRex host and a device that are connected, and their options in a testbed file."""
    server, remote = host
    device = sshserver.Server("audited")
    config = Path(remote.options.config)
    config.write_text(config.read_text() + format_ssh_host("audited", device, tmp_path))
    links = resolve_setup(plugin="nat44").technology.links
    for port, side in (("l0", "left"), ("r0", "right")):
        link = getattr(links, side)
        here = f"nsenter -t {server.pid} -n ip link add {port} address {link.tester_mac} type veth"
        there = f"peer name {side} address {link.dut_mac} netns {device.pid}"
        subprocess.run([*here.split(), *there.split()], check=True)
        prepare(server, port)
        prepare(device, side)
    trex = {"trex_dir": os.environ["TREX_DIR"], "ssh": remote.options.host,
            "ssh_config": str(config), "start": "always", "interfaces": ["l0", "r0"]}  # fmt: skip
    ssh = {"host": "audited", "config": str(config)}
    yield server, device, trex, {"left": "left", "right": "right", "ssh": ssh}
    device.stop()


@pytest.mark.trex
@needs_trex
def test_remote_trex_measures_throughput_of_remote_device(connected_hosts, tmp_path):
    """The testbed file is that of the manual, with these hosts and interfaces."""
    server, device, trex, dut_options = connected_hosts
    (page,) = re.findall(r"```yaml\n# remote-both.yaml.*?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    content = yaml.safe_load(page)
    assert set(content["tester"]["options"]) == {"ssh", "trex_dir", "interfaces"}
    assert content["dut"]["options"].keys() == dut_options.keys()
    content["tester"]["options"] |= trex
    content["dut"]["options"] |= dut_options
    del content["links"]
    bed = write_testbed(tmp_path, json.dumps({**content, "line_rate": "3M"}))
    settings = {"trial_duration_s": 0.5, "sending_time_tolerance": 1.5, "invalid_retries": 10,
                "latency.duration_s": 1, "latency.first_tag_s": 0.2, "latency.tags": 100}  # fmt: skip
    result = v6t(
        *("run", "--testbed", bed, "--plugin", "ipv4-router", "--measure", "throughput,latency"),
        *("--frame-size", "84", "--mode", "bidirectional", "--reps", "1", "--resolution", "500"),
        *(word for item in settings.items() for word in ("--set-procedure", "{}={}".format(*item))),
        *("-o", tmp_path / "run", "--no-report"),
    )
    assert result.status == 0, result.err
    run = Run(tmp_path / "run")
    run.describe_fact("measured")
    records = {point["benchmark"]: point for point in run.points}
    assert records["throughput"]["checked"] > 50
    assert_timed(records["latency"])
    assert run.tester["started_by_v6t"] is True
    assert "198.18" not in device.shell("ip route")
    assert "_t-rex-64" not in server.shell("ps -eo args")


@pytest.mark.trex
@needs_trex
def test_remote_trex_audits_remote_device(connected_hosts, tmp_path):
    server, device, trex, dut_options = connected_hosts
    tester, dut = {"kind": "trex", "options": trex}, {"driver": "nftables", "options": dut_options}
    bed = write_testbed(tmp_path, json.dumps({"tester": tester, "dut": dut}))
    clauses = "REQ-1-mapped,REQ-8-filtering-address,tcp-exchange,REQ-1-query,flush-udp"
    result = v6t(
        *("audit", "--testbed", bed, "--plugin", "nat44", "--suite", "nat", "--no-variants"),
        *("--clause", clauses, "-o", tmp_path / "audit"),
    )
    assert result.status == 6, result.err
    findings = json.loads((tmp_path / "audit" / "audit.json").read_text())["findings"]
    verdicts = {f["clause"].partition("-")[2]: f["verdict"] for f in findings}
    assert verdicts.pop("REQ-8-filtering-address") == "deviates"
    assert len(verdicts) > 4 and set(verdicts.values()) == {"conforms"}, verdicts
    assert "v6t" not in device.shell("nft list tables")
    assert "_t-rex-64" not in server.shell("ps -eo args")
