"""The shell program that starts a TRex server: closed ports, restored NICs, cleanup."""

import os
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
from v6t.drivers.lab.namespaces import Lab
from v6t.drivers.transport.process import enter
from v6t.drivers.trex import doctor
from v6t.drivers.trex import server as trex_server
from v6t.drivers.trex.channel import ClientWorker
from v6t.drivers.trex.client import host
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.server import make_server_program
from v6t.tests.needs import needs_lab

from .faketrex import write_script

needs_nft = pytest.mark.skipif(shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin") is None,
                               reason="needs nft (apt-get install nftables)")  # fmt: skip
LISTEN = "import socket,time; s=socket.create_server(('', 4501)); print('listening', flush=True); time.sleep(99)"
KNOCK = "import socket; socket.create_connection(('192.0.2.1', 4501), timeout=2); print('in')"


@pytest.fixture
def lab():
    with closing(Lab(1500, 1500)) as lab:
        for worker, address in ((lab.tester, "192.0.2.1"), (lab.device, "192.0.2.2")):
            script = (
                f"ip link set lo up; ip link set left arp on; ip addr add {address}/24 dev left"
            )
            assert worker.ask("run", command=["sh", "-ec", script]) == (0, "")
        yield lab


def make_program(folder, script, prefix="v6t0n0", **options):
    """Return the command of a server that is a shell script."""
    for name in ("t-rex-64", "_t-rex-64"):
        write_script(folder / name, script)
    return make_server_program(str(folder), "x", [], prefix=prefix, **options)


def run_in_namespace(worker, *command):
    command = [*enter(worker.pid), *command]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@needs_nft
@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize("fence", [True, False])
def test_fenced_server_is_reachable_locally_only(lab, tmp_path, fence):
    listen, knock = f'{sys.executable} -c "{LISTEN}"', (sys.executable, "-c", KNOCK)
    command = make_program(tmp_path, listen, fence=(4501, 4500) if fence else ())
    server = subprocess.Popen(
        [*enter(lab.tester.pid), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if fence:
        assert server.stdout.readline().strip() == trex_server.FENCE_MESSAGE
    assert server.stdout.readline().strip() == "listening"
    assert run_in_namespace(lab.device, *knock) == ("" if fence else "in")
    assert run_in_namespace(lab.tester, *knock) == "in"
    server.stdin.close()
    assert server.wait(30) != 0
    assert run_in_namespace(lab.tester, "nft", "list", "tables") == ""
    assert run_in_namespace(lab.tester, *knock) == ""


def test_failed_preparation_leaves_no_fence(tmp_path):
    write_script(tmp_path / "nft", f"echo $* >> {tmp_path}/calls")
    command = make_server_program(str(tmp_path / "none"), "", [], prefix="v6t0n0", fence=(4501,))
    result = run_server_shell(command[2], PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.returncode == 1
    assert not (tmp_path / "calls").exists()


def run_server_shell(text, **environment):
    """Run the shell program of a server to its end."""
    stays, open_ = os.pipe()
    try:
        return subprocess.run(
            ["sh", "-c", text], stdin=stays, check=False, capture_output=True, timeout=60,
            env={**os.environ, **environment},
        )  # fmt: skip
    finally:
        os.close(stays)
        os.close(open_)


def run_with_pci_bus(tmp_path, server):
    """Run a server with a NIC on a fake PCI bus; return the written bindings and override."""
    bus = tmp_path / "bus"
    for name in ("kernel", "dpdk"):
        (bus / "drivers" / name).mkdir(parents=True)
    nic = bus / "devices" / "0000:00:10.0"
    nic.mkdir(parents=True)
    (nic / "driver_override").write_text("")
    (nic / "driver").symlink_to(bus / "drivers" / "kernel")
    text = make_program(tmp_path, server, nics=["0000:00:10.0"])[2]
    result = run_server_shell(text.replace("/sys/bus/pci", str(bus)), NIC=str(nic), BUS=str(bus))
    assert result.returncode == 7, result
    written = {
        str(path.relative_to(bus / "drivers")): path.read_text().strip()
        for path in (bus / "drivers").glob("*/*bind")
    }
    return written, (nic / "driver_override").read_text()


BIND_TO_DPDK = "ln -sfn $BUS/drivers/dpdk $NIC/driver; echo dpdk >$NIC/driver_override; "


@pytest.mark.parametrize(
    ("server", "written", "override"),
    [
        (BIND_TO_DPDK, {"dpdk/unbind": "0000:00:10.0", "kernel/bind": "0000:00:10.0"}, "\n"),
        ("", {}, ""),
    ],
)
def test_a_nic_goes_back_to_the_driver_it_came_from(tmp_path, server, written, override):
    assert run_with_pci_bus(tmp_path, f"{server}exit 7") == (written, override)


def test_program_ends_with_its_guard(tmp_path):
    left = tmp_path / "dpdk" / "v6t0n0"
    left.mkdir(parents=True)
    running = subprocess.Popen(
        make_program(tmp_path, "echo up; sleep 1000"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)},
    )  # fmt: skip
    assert running.stdout.readline() == "up\n"
    running.terminate()
    assert running.wait(30) != 0
    assert not left.exists()
    running.stdin.close()
    assert running.stdout.read() == ""


def test_files_of_dpdk_are_removed(tmp_path):
    """Only the directory and hugepages of this server are removed."""
    own = {"dpdk/v6t7n0/config", "huge/v6t7n0map_0", "huge/v6t7n0map_511"}
    others = {"dpdk/v6t7n01/config", "dpdk/a/config", "huge/v6t7n01map_0", "no/v6t7n0map_0"}
    for name in own | others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"none {tmp_path}/no tmpfs rw 0 0\nhugetlbfs {tmp_path}/huge hugetlbfs rw,pagesize=2M 0 0\n"
    )
    text = make_program(tmp_path, "", "v6t7n0")[2]
    text = text.replace("/proc/mounts", str(mounts))
    result = run_server_shell(text, RUNTIME_DIRECTORY=str(tmp_path))
    assert result.returncode == 0, result
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/**/*") if p.is_file()} == others


HUGE = {"hugepages": [[1048576, 0], [2048, 512]], "hugetlbfs": [1048576]}


def test_unmounted_hugepages_are_reported_missing():
    finding = doctor.check_hugepages(HUGE, are_needed=True)
    assert finding[1] == "missing"
    assert "512 of 2M" in finding[2]
    assert "mount -t hugetlbfs -o pagesize=2M" in finding[2]
    assert doctor.check_hugepages(HUGE, are_needed=False)[1] == "note"
    mounted = {**HUGE, "hugetlbfs": [2048]}
    assert doctor.check_hugepages(mounted, are_needed=True) == ("hugepages", "ok", "512 of 2M")


@pytest.mark.parametrize(
    ("lspci", "modprobe", "state", "text"),
    [
        ("/usr/bin/lspci", "/usr/sbin/modprobe", "ok", "lspci and modprobe"),
        ("", "", "missing", "with lspci and modprobe, not found; apt-get install pciutils kmod"),
        ("", "/usr/sbin/modprobe", "missing", "with lspci, not found; apt-get install pciutils"),
        ("/usr/bin/lspci", "", "note", "with modprobe, not found; apt-get install kmod"),
    ],
)
def test_doctor_checks_lspci_and_modprobe(lspci, modprobe, state, text):
    finding = doctor.check_programs({"lspci": lspci, "modprobe": modprobe})
    assert finding[1] == state
    assert finding[2].endswith(text)


@pytest.mark.parametrize(
    ("options", "facts", "state", "text"),
    [
        ({}, {}, "ok", "4501 and 4500 of a server that v6t starts are closed"),
        ({"fence": False}, {}, "note", "fence is false"),
        ({}, {"nft": ""}, "note", "apt-get install nftables"),
        ({}, {"nft_problem": "not permitted"}, "note", "repair nft (not permitted)"),
        ({}, {"served": True}, "note", "any host that reaches yours"),
        ({"start": "never"}, {}, "note", "any host that reaches yours"),
        ({"server": "192.0.2.1"}, {}, "note", "any host that reaches yours"),
        ({"start": "always"}, {"served": True}, "ok", "closed to other hosts"),
        ({"lab": True}, {"nft": ""}, "ok", "no other host reaches them"),
    ],
)
def test_doctor_reports_unfenced_ports(options, facts, state, text):
    facts = {"nft": "/usr/sbin/nft", "nft_problem": "", "served": False, **facts}
    finding = doctor.check_port_isolation(facts, TrexOptions.model_validate(options))
    assert finding[1] == state
    assert text in finding[2]


def test_whether_nftables_can_be_used_is_tried(tmp_path):
    nft = tmp_path / "nft"
    write_script(nft, "echo 'Operation not permitted' >&2; exit 1")
    assert host.find_nft_problem(str(nft)) == "Operation not permitted"
    write_script(nft, "")
    assert host.find_nft_problem(str(nft)) == host.find_nft_problem("") == ""


@pytest.mark.parametrize(
    ("arguments", "several", "states"),
    [
        ("--software --hdrh -c 1", False, {"--software": "ok", "--hdrh": "ok"}),
        ("--software -c 1", False, {"--software": "ok", "--hdrh": "note"}),
        ("--software -c 4", True, {"--software": "ok"}),
        ("-c 4", True, {"--software": "note"}),
    ],
)
def test_server_arguments_depend_on_cores(arguments, several, states):
    findings = doctor.check_flags(arguments.split(), has_several_cores=several)
    assert {subject: state for subject, state, _ in findings} == states


def test_machine_facts_are_complete():
    with closing(ClientWorker(sys.executable)) as worker:
        facts = worker.ask("examine_host", interfaces=["lo", "none0", "--vdev=net_memif0"])
    states = {name: finding and finding[0] for name, finding in facts["interfaces"].items()}
    assert states == {"lo": "ok", "none0": "missing", "--vdev=net_memif0": None}
    assert all(size > 0 for size, _ in facts["hugepages"])
