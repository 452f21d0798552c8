"""TRex servers that v6t starts: options, configuration, checks of doctor, and the server's shell program."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from unittest.mock import Mock

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs import tester_capacity
from v6t.drivers.lab.namespaces import Lab
from v6t.drivers.placement import ThreadPlacement, find_forwarding_cpus, make_ring, place_threads
from v6t.drivers.several.tester import SeveralTesters
from v6t.drivers.testers import load_kind
from v6t.drivers.transport.process import enter
from v6t.drivers.trex import doctor, port_driver
from v6t.drivers.trex import server as trex_server
from v6t.drivers.trex.channel import WorkerError, read_version
from v6t.drivers.trex.client import host
from v6t.drivers.trex.interfaces import join_memif
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.port_driver import find_driver
from v6t.drivers.trex.server import make_config, make_server_program
from v6t.drivers.trex.streams import replace_link_header
from v6t.drivers.trex.tester import TrexTester
from v6t.intent.device import Link, Links
from v6t.plugins.router import Ipv6Router
from v6t.profiles.compiler.compile import compile_traffic
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from .faketrex import write_script


def format_interface(number, interface, ring=512, mtu=1500):
    return find_driver(interface).format_interface(number, interface, make_ring(ring, mtu))


@pytest.mark.parametrize(("ring", "mtu", "least"), [
    (TrexOptions().ring, 1500, 8192), (1024, 1500, 1024), (1024, 2000, 1024), (1024, 9000, 1024),
    (1024, 9216, 1024),
])  # fmt: skip
def test_ring_holds_complete_blocks_and_longest_frame(ring, mtu, least):
    name, _, words = format_interface(3, "eth1", ring, mtu).partition(",")
    arguments = dict(word.split("=") for word in words.split(","))
    assert (name, arguments["iface"]) == ("--vdev=net_af_packet3", "eth1")
    slot, block, count = (int(arguments[name]) for name in ("framesz", "blocksz", "framecnt"))
    # the TPACKET2 header and Ethernet with a VLAN tag precede the packet
    assert slot >= mtu + 18 + 66
    assert block % slot == 0 and block % 4096 == 0
    assert count % (block // slot) == 0, "the kernel rejects a ring with an incomplete block"
    assert count >= least


@pytest.mark.parametrize("argument", [
    "03:00.0", "0000:03:00.1", "--vdev=net_memif0,id=0,role=server", "dummy",
])  # fmt: skip
def test_explicit_port_arguments_are_kept(argument):
    assert format_interface(0, argument) == argument


def make_server_config(options, placement):
    ports = [(n, "02:00:00:00:00:01", "02:00:00:00:00:02") for n in options.all_interfaces]
    (config,) = json.loads(make_config(options, ports, placement, "v6t"))
    return config


SHARED_CPU, FOUR_CPUS = ThreadPlacement(0, 0, (1,)), ThreadPlacement(0, 1, (2, 3))


@pytest.mark.parametrize(("cpus", "placement", "forwarding"), [
    ([4], ThreadPlacement(4, 4, (4,)), []),
    ([0, 1], SHARED_CPU, [0]),  # the data path has one CPU, forwarding the other
    ([0, 1, 2], ThreadPlacement(0, 1, (2,)), []),  # one CPU per thread
    ([3, 5, 7, 9], ThreadPlacement(3, 5, (7,)), []),
])  # fmt: skip
def test_data_path_has_a_separate_cpu_if_possible(cpus, placement, forwarding):
    assert place_threads(1, cpus) == placement
    assert find_forwarding_cpus(placement, cpus) == forwarding
    assert placement.arguments == ([] if len(cpus) >= 3 else ["--no-watchdog"])
    config = make_server_config(TrexOptions(interfaces=ETH), placement)
    assert config["interfaces"] == list(ETH)
    # TRex needs three CPUs, or low_end mode with all threads on one
    assert config.get("low_end", False) == (len(cpus) < 3)
    threads = [pair["threads"] for pair in config.get("platform", {}).get("dual_if", [])]
    assert threads == ([list(placement.sending)] if len(cpus) >= 3 else [])


@pytest.mark.parametrize(("placement", "cpus"), [
    (ThreadPlacement(1, 1, (1,)), [0]), (ThreadPlacement(4, 4, (4,)), [0, 1]),
])  # fmt: skip
def test_forwarding_uses_other_cpus_than_all_threads(placement, cpus):
    assert find_forwarding_cpus(placement, [0, 1]) == cpus


def test_data_path_and_receiver_threads_have_highest_priority():
    data_path = {"trex dp core 1": (2, -20), "trex dp core 2": (3, -20)}
    assert FOUR_CPUS.list_threads() == {**data_path, "trex rx": (1, -20), "": (0, None)}


def test_data_path_cores_do_not_share_cpus():
    with expect_error("resource-missing"):
        place_threads(2, [0, 1, 2], may_share=False)


def list_ports(more="", name="net_af_packet"):
    """Return the arguments of two ports on Linux interfaces, as a user may write them."""
    return tuple(f"--vdev={name}{n},iface=eth{n}{more}" for n in (0, 1))


MEMIF = tuple(f"--vdev=net_memif{n},id={n},role=client" for n in (0, 1))
NICS = ("03:00.0", "03:00.1")
ETH = ("eth1", "eth2")
PAIR = {"ports": [2, 3], "interfaces": ["04:00.0", "04:00.1"]}
SECOND_SIDE = {"tester_mac": "02:00:00:00:03:02", "dut_mac": "02:00:00:00:03:01"}
FIRST = {"server": "192.0.2.1"}
SECOND = {"name": "second", "server": "192.0.2.2", "ports": [2, 3],
          "left": SECOND_SIDE, "right": SECOND_SIDE}  # fmt: skip
SERVERS = [FIRST, SECOND]


@pytest.mark.parametrize("options", [
    {"cores": 1, "interfaces": list_ports(",qpairs=1")},
    {"cores": 1, "interfaces": list_ports(",qpairs=1,framecnt=8")},
    {"cores": 2, "interfaces": NICS}, {"cores": 2, "interfaces": MEMIF},
    {"lab": True, "interfaces": MEMIF}, {"lab": True, "rps_cpus": (0,)}, {"core_list": (0, 0, 1)},
    {"interfaces": ("0000:81:1f.6", "0001:81:1f.7")},
    {"interfaces": ("enp3s0f0.100", "a23456789abcdef")},
])  # fmt: skip
def test_valid_trex_options_are_accepted(options):
    accepted = Trex(options).options
    assert {name: getattr(accepted, name) for name in options} == options


@pytest.mark.parametrize(("options", "code", "mentions"), [
    *(({"cores": 2, **ports}, "conflict", "") for ports in (
        {"lab": True}, {"interfaces": ETH}, {"interfaces": list_ports()},
        {"interfaces": list_ports(",qpairs=1", "eth_af_packet")})),
    # TRex receives from the first queue only
    *(({"cores": cores, "interfaces": list_ports(more, name)}, "conflict", "qpairs")
      for more in (",qpairs=2", ",qpairs=10,framecnt=8192", ",framecnt=512,qpairs=4")
      for name, cores in (("net_af_packet", 1), ("eth_af_packet", 2))),
    ({"hardware_filter": True}, "conflict", ""),
    ({"lab": True, "interfaces": ETH}, "conflict", ""),
    *(({"rps_cpus": (0,), **wrong}, "conflict", "rps_cpus") for wrong in (
        {}, {"interfaces": ETH}, {"lab": True, "interfaces": MEMIF})),
    # options without effect
    ({"ssh_config": "config"}, "conflict", "ssh_config"),
    ({"ring": 1024, "interfaces": NICS}, "conflict", "ring"),
    ({"ring": 1024, "start": "never"}, "conflict", "ring"),
    ({"core_list": (0, 0, 1), "server": "t.example"}, "conflict", "core_list"),
    ({"max_skew": 0.1}, "conflict", "max_skew"),
    ({"pairs": [PAIR]}, "missing-setting", "interfaces"),
    ({"restart": True}, "missing-setting", "interfaces"),
    ({"restart": True, "start": "never", "interfaces": ETH}, "conflict", "start"),
    ({"restart": True, "interfaces": ETH, "server": "t.example"}, "conflict", "t.example"),
    ({"start": "always", "interfaces": ETH, "server": "t.example"}, "conflict", "t.example"),
    ({"lab": True, "server": "t.example"}, "conflict", "t.example"),
    *(({"ring": ring}, "out-of-range", "") for ring in (0, 511, 1000, 100_000)),
    ({"cores": 2, "core_list": (0, 0, 1, 2)}, "duplicate", ""),
    ({"interfaces": NICS, "pairs": [PAIR], "cores": 4, "core_list": [0, 1, 2, 3, 4, 5]},
     "wrong-length", "10"),
    *(({"interfaces": names}, code, "") for names, code in (
        (["03:00.0/0", "03:00.0/1"], "unsupported-by-tester"),
        (["10000:01:00.0", "10000:01:00.1"], "wrong-form"),
        (["03:00.7", "03:00.8"], "wrong-form"),
        (["03:20.0", "03:00.1"], "wrong-form"),
        (["03:00", "03:01"], "wrong-form"),
        (["0a:00.0", "dummy"], "wrong-interface"),
        (["eth0", "eth0/1"], "wrong-form"),
        (["eth0", "a23456789abcdef0"], "wrong-form"),
        (["eth0", "--software"], "wrong-form"),
        (["eth0", "eth1,iface=eth2"], "wrong-form"),
        (["eth0", ".."], "wrong-form"),
        (["0000:03:00.0", "03:00.0"], "duplicate"),
        (["0A:00.0", "0a:00.0"], "duplicate"),
        (["eth0", "--vdev=net_af_packet0,iface=eth0"], "duplicate"),
        (["03:00.0", "03:00.1", "04:00.0", "04:00.1"], "wrong-length"),
        (["03:00.0"], "wrong-length"))),
    ({"interfaces": NICS, "pairs": [{**PAIR, "interfaces": ["0000:03:00.1", "04:00.1"]}]},
     "duplicate", "0000:03:00.1"),
    *(({"start": "never", **servers}, code, "") for servers, code in (
        ({"servers": [FIRST, {**SECOND, "name": "1"}]}, "duplicate"),
        ({"servers": [FIRST, {**SECOND, "server": "192.0.2.1"}]}, "duplicate"),
        ({"servers": [FIRST, {"server": "192.0.2.2"}]}, "missing-setting"),
        ({"servers": SERVERS, "only": "third"}, "unknown-name"),
        ({"servers": SERVERS, "max_skew": 0}, "out-of-range"),
        ({"servers": [{**FIRST, "port": 1}, SECOND]}, "unknown-setting"),
        ({"servers": [{**FIRST, "ports": [1, 1]}, SECOND]}, "duplicate"),
        ({"servers": [{}, SECOND], "lab": True}, "conflict"))),
])  # fmt: skip
def test_invalid_trex_options_are_rejected(options, code, mentions):
    with expect_error(code, mentions=mentions):
        Trex(options)


def test_lab_needs_the_driver_of_linux_interfaces(monkeypatch):
    """The module with that driver can be deleted."""
    monkeypatch.setattr(port_driver, "DRIVERS", [])
    with expect_error("unsupported-by-tester", mentions="lab"):
        Trex({"lab": True})
    assert Trex({"lab": True, "interfaces": MEMIF}).in_lab


@pytest.mark.parametrize(("options", "mode", "in_software"), [
    ({}, ["--software", "--hdrh"], True),
    ({"counting": "ports"}, [], False),
    ({"cores": 4}, ["--software"], True),
    ({"cores": 4, "hardware_filter": True}, [], False),
    ({"cores": 4, "hardware_filter": True, "extra_arguments": ["--software"]}, [], True),
])  # fmt: skip
def test_nics_receive_in_software_by_default(options, mode, in_software):
    """Only software mode compares and times the frames of translators."""
    read = TrexOptions(interfaces=NICS, **options)
    assert (read.mode_arguments, read.uses_software_mode) == (mode, in_software)


def test_memif_ports_are_joined_for_the_self_test():
    ends = "socket=/run/vpp/memif.sock,socket-abstract=no,rsize=13"
    memif = [f"--vdev=net_memif{n},id={n},role=client,{ends}" for n in (0, 1)]
    first, second = (dict(w.split("=") for w in p.split(",")[1:]) for p in join_memif(memif))
    assert (first.pop("role"), second.pop("role")) == ("server", "client")
    assert first == second and first["socket"] != "/run/vpp/memif.sock" and first["rsize"] == "13"


def test_configuration_contains_socket_of_pair():
    options = TrexOptions(interfaces=NICS, pairs=({**PAIR, "socket": 1},))
    pairs = make_server_config(options, FOUR_CPUS)["platform"]["dual_if"]
    assert pairs == [{"socket": 0, "threads": [2]}, {"socket": 1, "threads": [3]}]


SIDE = {"tester_mac": "02:00:00:00:0c:02", "dut_mac": "02:00:00:00:0c:01", "vlan": 200}
TAGGED_PAIR = {**PAIR, "left": SIDE}


def make_tagged_links(vlan: int | None) -> Links:
    left = Link(tester_mac="02:00:00:00:01:02", dut_mac="02:00:00:00:01:01", vlan=vlan)
    return Links(left, Links().right)


def test_pair_with_vlan_tags_its_frames():
    options = TrexOptions(interfaces=NICS, pairs=(TAGGED_PAIR,))
    links = make_tagged_links(100)
    plugin = Ipv6Router(links=links)
    (stream,) = compile_traffic(plugin.build_traffic("forward", plugin.make_frame_pair(88))).streams
    side = options.pairs[0].left
    packet = replace_link_header(stream.packet, links.left, side)
    assert packet[:18].hex() == "020000000c01020000000c02810000c886dd"
    for frame in (packet, stream.packet):
        assert replace_link_header(frame, side, links.left) == stream.packet
    broadcast = b"\xff" * 6 + stream.packet[6:]
    assert replace_link_header(broadcast, links.left, side) == b"\xff" * 6 + packet[6:]


def test_pair_vlan_without_link_vlan_is_rejected():
    kind = Trex({"interfaces": ["03:00.0", "03:00.1"], "pairs": [TAGGED_PAIR]})
    kind.check_links(make_tagged_links(100))
    with expect_error("conflict", mentions="links.left"):
        kind.check_links(make_tagged_links(None))


@pytest.mark.parametrize("folder", ["trex-core/scripts", "trex-core"])
def test_version_of_a_source_tree_is_read_from_either_folder(tmp_path, folder):
    scripts = tmp_path / "trex-core" / "scripts"
    scripts.mkdir(parents=True)
    (tmp_path / folder / "VERSION").write_text("v3.06\n")
    assert read_version(scripts) == "v3.06"


def make_kind(**options):
    return load_kind("trex", {"start": "never", "servers": SERVERS, **options})


def test_common_options_apply_to_all_servers():
    servers = make_kind(rpc_port=5501).options.selected_servers
    assert list(servers) == ["1", "second"]
    assert {server.rpc_port for server in servers.values()} == {5501}
    assert [server.ports for server in servers.values()] == [(0, 1), (2, 3)]
    macs = SECOND_SIDE["tester_mac"], SECOND_SIDE["dut_mac"]
    assert servers["second"].find_macs(Links()) == {2: macs, 3: macs}


@pytest.mark.parametrize(("options", "kind"), [
    ({}, SeveralTesters), ({"only": "second"}, TrexTester), ({"servers": []}, TrexTester),
])  # fmt: skip
def test_several_servers_make_one_tester(options, kind):
    tester = make_kind(**options).make(Links(), None, loopback=False, delays=False, seed=1)
    assert isinstance(tester, kind)


def test_max_stamped_rate_is_sum_over_servers():
    needs, both, one = frozenset({"frame-timeout"}), make_kind(), make_kind(only="second")
    max_rate_fps = one.compute_max_rate_fps(needs, "forward")
    assert both.compute_max_rate_fps(needs, "forward") == 2 * max_rate_fps


def test_doctor_examines_each_server():
    subjects = [what for what, _, _ in make_kind(trex_dir="/nonexistent").examine(required=True)]
    assert any("server 1" in what for what in subjects)
    assert any("server second" in what for what in subjects)


@pytest.mark.parametrize(("options", "state", "text"), [
    ({"start": "never"}, "missing", "start one with"),
    ({}, "missing", "tester.options.interfaces"),
    ({"interfaces": ("eth1", "eth2")}, "note", "v6t starts one"),
])  # fmt: skip
def test_doctor_tells_whether_a_server_can_be_started_over_ssh(options, state, text):
    worker = Mock(ask=Mock(side_effect=WorkerError("no answer", "connect", code="unreachable")))
    own = TrexOptions.model_validate({"ssh": "trex1", "trex_dir": "/opt/trex/v3.08", **options})
    [(subject, found, words)] = doctor._examine_server(worker, own)
    assert (subject, found, text in words) == ("TRex server", state, True)


def test_warnings_name_share_and_skew_limit():
    texts = " ".join(make_kind(max_skew=0.03).list_warnings([]))
    assert all(words in texts for words in ("192.0.2.2:4501", "1/2", "3.00%"))


def test_selftest_measures_each_server_and_all(monkeypatch):
    options = {"start": "never", "servers": json.dumps(SERVERS)}
    setup = resolve_setup(plugin="siit", tester="trex", tester_options=options)
    monkeypatch.setattr(
        tester_capacity, "_measure_capacities", lambda setup, _: [{"of": setup.tester.servers}]
    )
    rows = list(tester_capacity.measure_capacities(setup, print))
    both = {"of": ("1", "second")}
    assert rows == [{"server": "1", "of": ()}, {"server": "second", "of": ()}, both]


needs_nft = pytest.mark.skipif(shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin") is None,
                               reason="needs nft (apt-get install nftables)")  # fmt: skip
# Programs that listen on TRex's port, and that connect to it.
LISTEN = "import socket,time; s=socket.create_server(('', 4501)); print('listening', flush=True); time.sleep(99)"
CONNECT = "import socket; socket.create_connection(('192.0.2.1', 4501), timeout=2); print('in')"


@pytest.fixture
def lab():
    """Provide a lab with IPv4 addresses on the left interfaces of tester and device."""
    with closing(Lab(1500, 1500)) as lab:
        for worker, address in ((lab.tester, "192.0.2.1"), (lab.device, "192.0.2.2")):
            up = "ip link set lo up; ip link set left arp on"
            script = f"{up}; ip addr add {address}/24 dev left"
            assert worker.ask("run", command=["sh", "-ec", script]) == (0, "")
        yield lab


def make_program(folder, script, prefix="v6t0n0", **options):
    """Return the command that starts a server, which is a shell script."""
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
    listen, connect = f'{sys.executable} -c "{LISTEN}"', (sys.executable, "-c", CONNECT)
    command = make_program(tmp_path, listen, fence=(4501, 4500) if fence else ())
    command, pipe = [*enter(lab.tester.pid), *command], subprocess.PIPE
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    if fence:
        assert server.stdout.readline().strip() == trex_server.FENCE_MESSAGE
    assert server.stdout.readline().strip() == "listening"
    assert run_in_namespace(lab.device, *connect) == ("" if fence else "in")
    assert run_in_namespace(lab.tester, *connect) == "in"
    server.stdin.close()
    assert server.wait(30) != 0
    assert run_in_namespace(lab.tester, "nft", "list", "tables") == ""
    assert run_in_namespace(lab.tester, *connect) == ""


def test_failed_preparation_leaves_no_fence(tmp_path):
    write_script(tmp_path / "nft", f"echo $* >> {tmp_path}/calls")
    command = make_server_program(str(tmp_path / "none"), "", [], prefix="v6t0n0", fence=(4501,))
    assert run_server_shell(command[2], PATH=f"{tmp_path}:{os.environ['PATH']}") == 1
    assert not (tmp_path / "calls").exists()


def run_server_shell(text, **environment):
    """Run the shell program of a server until it ends, with open input; return its status."""
    environment = {**os.environ, **environment}
    with subprocess.Popen(["sh", "-c", text], stdin=subprocess.PIPE, env=environment) as process:
        return process.wait(60)


BIND_TO_DPDK = "ln -sfn $BUS/drivers/dpdk $NIC/driver; echo dpdk >$NIC/driver_override; "


@pytest.mark.parametrize(("server", "written", "override"), [
    (BIND_TO_DPDK, {"dpdk/unbind": "0000:00:10.0", "kernel/bind": "0000:00:10.0"}, "\n"),
    ("", {}, ""),
])  # fmt: skip
def test_nic_is_rebound_to_original_driver(tmp_path, server, written, override):
    bus = tmp_path / "bus"
    drivers, nic = bus / "drivers", bus / "devices" / "0000:00:10.0"
    for directory in (drivers / "kernel", drivers / "dpdk", nic):
        directory.mkdir(parents=True)
    (nic / "driver_override").write_text("")
    (nic / "driver").symlink_to(drivers / "kernel")
    text = make_program(tmp_path, f"{server}exit 7", nics=["0000:00:10.0"])[2]
    text = text.replace("/sys/bus/pci", str(bus))
    assert run_server_shell(text, NIC=str(nic), BUS=str(bus)) == 7
    files = {str(p.relative_to(drivers)): p.read_text().strip() for p in drivers.glob("*/*bind")}
    assert (files, (nic / "driver_override").read_text()) == (written, override)


def test_server_program_ends_with_its_shell(tmp_path):
    directory = tmp_path / "dpdk" / "v6t0n0"
    directory.mkdir(parents=True)
    command, pipe = make_program(tmp_path, "echo up; sleep 1000"), subprocess.PIPE
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(30) != 0
    assert not directory.exists()
    process.stdin.close()
    assert process.stdout.read() == ""


def test_dpdk_files_of_server_are_removed(tmp_path):
    """Only the directory and the hugepages of this server are removed."""
    files = {"dpdk/v6t7n0/config", "huge/v6t7n0map_0", "huge/v6t7n0map_511"}
    others = {"dpdk/v6t7n01/config", "dpdk/a/config", "huge/v6t7n01map_0", "no/v6t7n0map_0"}
    for name in files | others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    mounts, huge = tmp_path / "mounts", f"hugetlbfs {tmp_path}/huge hugetlbfs rw,pagesize=2M 0 0\n"
    mounts.write_text(f"none {tmp_path}/no tmpfs rw 0 0\n{huge}")
    text = make_program(tmp_path, "", "v6t7n0")[2].replace("/proc/mounts", str(mounts))
    assert run_server_shell(text, RUNTIME_DIRECTORY=str(tmp_path)) == 0
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/**/*") if p.is_file()} == others


HUGE = {"hugepages": [[1048576, 0], [2048, 512]], "hugetlbfs": [1048576]}


def test_unmounted_hugepages_are_reported_missing():
    _, state, text = doctor.check_hugepages(HUGE, are_needed=True)
    assert state == "missing"
    assert "512 of 2M" in text and "mount -t hugetlbfs -o pagesize=2M" in text
    assert doctor.check_hugepages(HUGE, are_needed=False)[1] == "note"
    mounted = {**HUGE, "hugetlbfs": [2048]}
    assert doctor.check_hugepages(mounted, are_needed=True) == ("hugepages", "ok", "512 of 2M")


@pytest.mark.parametrize(("lspci", "modprobe", "state", "text"), [
    ("/usr/bin/lspci", "/usr/sbin/modprobe", "ok", "lspci and modprobe"),
    ("", "", "missing", "with lspci and modprobe, not found; apt-get install pciutils kmod"),
    ("", "/usr/sbin/modprobe", "missing", "with lspci, not found; apt-get install pciutils"),
    ("/usr/bin/lspci", "", "note", "with modprobe, not found; apt-get install kmod"),
])  # fmt: skip
def test_doctor_checks_lspci_and_modprobe(lspci, modprobe, state, text):
    finding = doctor.check_programs({"lspci": lspci, "modprobe": modprobe})
    assert finding[1] == state and finding[2].endswith(text)


@pytest.mark.parametrize(("options", "facts", "state", "text"), [
    ({}, {}, "ok", "4501 and 4500 of a server that v6t starts are closed"),
    ({"fence": False}, {}, "note", "fence is false"),
    ({}, {"nft": ""}, "note", "apt-get install nftables"),
    ({}, {"nft_problem": "not permitted"}, "note", "repair nft (not permitted)"),
    ({}, {"served": True}, "note", "any host that reaches yours"),
    ({"start": "never"}, {}, "note", "any host that reaches yours"),
    ({"server": "192.0.2.1"}, {}, "note", "any host that reaches yours"),
    ({"start": "always"}, {"served": True}, "ok", "closed to other hosts"),
    ({"lab": True}, {"nft": ""}, "ok", "no other host reaches them"),
])  # fmt: skip
def test_doctor_reports_unfenced_ports(options, facts, state, text):
    facts = {"nft": "/usr/sbin/nft", "nft_problem": "", "served": False, **facts}
    finding = doctor.check_port_isolation(facts, TrexOptions.model_validate(options))
    assert finding[1] == state and text in finding[2]


def test_nftables_support_is_probed(tmp_path):
    nft = tmp_path / "nft"
    write_script(nft, "echo 'Operation not permitted' >&2; exit 1")
    assert host.find_nft_problem(str(nft)) == "Operation not permitted"
    write_script(nft, "")
    assert host.find_nft_problem(str(nft)) == host.find_nft_problem("") == ""


@pytest.mark.parametrize(("arguments", "several", "states"), [
    ("--software --hdrh -c 1", False, {"--software": "ok", "--hdrh": "ok"}),
    ("--software -c 1", False, {"--software": "ok", "--hdrh": "note"}),
    ("--software -c 4", True, {"--software": "ok"}),
    ("-c 4", True, {"--software": "note"}),
])  # fmt: skip
def test_server_arguments_depend_on_cores(arguments, several, states):
    findings = doctor.check_flags(arguments.split(), has_several_cores=several)
    assert {subject: state for subject, state, _ in findings} == states
