"""The shell program that starts a TRex server: closed ports, restored NICs, cleanup."""

import ast
import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

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

needs_nft = pytest.mark.skipif(shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin") is None,
                               reason="needs nft (apt-get install nftables)")  # fmt: skip
LISTEN = "import socket,time; s=socket.create_server(('', 4501)); print('listening', flush=True); time.sleep(99)"
KNOCK = "import socket; socket.create_connection(('{}', 4501), timeout=2); print('in')"


@pytest.fixture
def lab():
    made = Lab(1500, 1500)
    for worker, address in ((made.tester, "192.0.2.1"), (made.device, "192.0.2.2")):
        for words in ("link set lo up", "link set left arp on", f"addr add {address}/24 dev left"):
            assert worker.ask("run", command=["ip", *words.split()])[0] == 0
    yield made
    made.close()


def make_program(folder, script, prefix="v6t0n0", **options):
    """Return the command of a server that is a shell script."""
    for name in ("t-rex-64", "_t-rex-64"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return make_server_program(str(folder), "x", [], prefix=prefix, **options)


def start_in_namespace(worker, command, **how):
    return subprocess.Popen(
        [*enter(worker.pid), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how
    )  # fmt: skip


def run_in_namespace(worker, *command):
    process = start_in_namespace(worker, list(command), stderr=subprocess.DEVNULL)
    return process.communicate()[0].strip()


@needs_nft
@pytest.mark.lab
@needs_lab
@pytest.mark.parametrize("fence", [True, False])
def test_fenced_server_is_reachable_locally_only(lab, tmp_path, fence):
    listening = f'{sys.executable} -c "{LISTEN}"'
    command = make_program(tmp_path, listening, fence=(4501, 4500) if fence else ())
    server = start_in_namespace(lab.tester, command)
    if fence:
        assert server.stdout.readline().strip() == trex_server.FENCE_MESSAGE
    assert server.stdout.readline().strip() == "listening"
    knock = KNOCK.format("192.0.2.1")
    assert run_in_namespace(lab.device, sys.executable, "-c", knock) == ("" if fence else "in")
    assert run_in_namespace(lab.tester, sys.executable, "-c", knock) == "in"
    server.stdin.close()
    assert server.wait(30) != 0
    assert run_in_namespace(lab.tester, "nft", "list", "tables") == ""
    assert run_in_namespace(lab.tester, sys.executable, "-c", knock) == ""


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


def run_with_pci_bus(tmp_path, now):
    """Run a server with a NIC on a fake PCI bus; return the written bindings and override."""
    tmp_path.mkdir()
    bus = tmp_path / "bus"
    for name in ("kernel", "dpdk"):
        (bus / "drivers" / name).mkdir(parents=True)
    nic = bus / "devices" / "0000:00:10.0"
    nic.mkdir(parents=True)
    (nic / "driver_override").write_text("")
    (nic / "driver").symlink_to(bus / "drivers" / "kernel")
    text = make_program(tmp_path, now, nics=["0000:00:10.0"])[2]
    done = run_server_shell(text.replace("/sys/bus/pci", str(bus)), NIC=str(nic), BUS=str(bus))
    assert done.returncode == 7, done
    written = {
        f"{name}/{what}": path.read_text().strip()
        for name in ("kernel", "dpdk")
        for what in ("bind", "unbind")
        if (path := bus / "drivers" / name / what).exists()
    }
    return written, (nic / "driver_override").read_text()


def test_a_nic_goes_back_to_the_driver_it_came_from(tmp_path):
    now = "ln -sfn $BUS/drivers/dpdk $NIC/driver; echo dpdk >$NIC/driver_override; exit 7"
    bound = {"dpdk/unbind": "0000:00:10.0", "kernel/bind": "0000:00:10.0"}
    assert run_with_pci_bus(tmp_path / "moved", now) == (bound, "\n")
    assert run_with_pci_bus(tmp_path / "stayed", "exit 7") == ({}, "")


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
    done = run_server_shell(
        text.replace("/proc/mounts", str(mounts)), RUNTIME_DIRECTORY=str(tmp_path)
    )
    assert done.returncode == 0, done
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/**/*") if p.is_file()} == others


HUGE = {"hugepages": [[1048576, 0], [2048, 512]], "hugetlbfs": [1048576]}


def test_unmounted_hugepages_are_reported_missing():
    found = doctor.check_hugepages(HUGE, are_needed=True)
    assert found[1] == "missing"
    assert "512 of 2M" in found[2]
    assert "mount -t hugetlbfs -o pagesize=2M" in found[2]
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
    found = doctor.check_programs({"lspci": lspci, "modprobe": modprobe})
    assert found[1] == state
    assert found[2].endswith(text)


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
    found = doctor.check_port_isolation(facts, TrexOptions.model_validate(options))
    assert found[1] == state
    assert text in found[2]


def test_whether_nftables_can_be_used_is_tried(tmp_path):
    refusing = tmp_path / "nft"
    refusing.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    assert host.find_nft_problem(str(refusing)) == "Operation not permitted"
    refusing.write_text("#!/bin/sh\n")
    assert host.find_nft_problem(str(refusing)) == host.find_nft_problem("") == ""


def test_listening_port_is_reachable():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert host.is_reachable(("127.0.0.1", port))
    assert not host.is_reachable(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("words", "several", "found"),
    [
        ("--software --hdrh -c 1", False, {"--software": "ok", "--hdrh": "ok"}),
        ("--software -c 1", False, {"--software": "ok", "--hdrh": "note"}),
        ("--software -c 4", True, {"--software": "ok"}),
        ("-c 4", True, {"--software": "note"}),
    ],
)
def test_server_arguments_depend_on_cores(words, several, found):
    findings = doctor.check_flags(words.split(), has_several_cores=several)
    assert {subject: state for subject, state, _ in findings} == found


def test_machine_facts_are_complete():
    with closing(ClientWorker(sys.executable)) as worker:
        facts = worker.ask("examine_host", interfaces=["lo", "none0", "--vdev=net_memif0"])
    states = {name: found and found[0] for name, found in facts["interfaces"].items()}
    assert states == {"lo": "ok", "none0": "missing", "--vdev=net_memif0": None}
    assert all(size > 0 for size, _ in facts["hugepages"])


def test_only_one_module_handles_linux_interfaces():
    knowing = set()
    for path in Path(doctor.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant(None)  # a docstring
        if re.search("af_?packet|linux_driver|on_linux", ast.unparse(tree), re.IGNORECASE):
            knowing.add(path.name)
    assert knowing == {"af_packet.py", "interfaces.py"}
