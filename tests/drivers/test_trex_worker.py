"""The client of TRex, its worker process and its servers, with a fake installation."""

import ast
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute
from v6t.drivers.placement import ThreadPlacement
from v6t.drivers.trex import af_packet, attachment, channel
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import tester as trex_tester
from v6t.drivers.trex.channel import ASTF_MODULES, STL_MODULES, ClientWorker, WorkerError
from v6t.drivers.trex.client import host, rpc, stats, stl
from v6t.drivers.trex.client.service import RequestError
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.port_driver import choose_driver
from v6t.drivers.trex.server import Server, make_server_program
from v6t.drivers.trex.tester import TrexTester
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve
from v6t.trials.trial import DelayRequest, DeviceEvent, Trial
from v6t.trials.verdict import assess_trial

from . import faketrex
from .duts.remote_site import wait_until
from .lab_testers import compile_plugin

pytestmark = pytest.mark.slow
PLUGIN, STREAMS = compile_plugin()
TRIAL = Trial("throughput", "t", 104, 64, "bidirectional", 1000.0, 0.5, 0.0, 0.0)


@pytest.fixture
def installation(tmp_path):
    return faketrex.make_installation(tmp_path / "v3.08")


@pytest.fixture(autouse=True)
def listener(monkeypatch):
    """Listen on the fake server's port, because v6t takes a refused connection as a lost server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("FAKE_PORT", str(server.getsockname()[1]))
        monkeypatch.setattr(
            TrexOptions, "list_hosts", lambda *_: {}
        )  # the fake answers no requests
        yield server


def fake_options(installation):
    where = {"trex_dir": str(installation), "rpc_port": os.environ["FAKE_PORT"]}
    return {"python": sys.executable, "start": "never", **where}


def make_tester(installation, **options):
    return TrexTester(Trex({**fake_options(installation), **options}).options, PLUGIN.links)


@pytest.fixture
def open_fake(installation, monkeypatch):
    """Provide a function that opens a loaded tester of a fake server with these settings."""

    @contextmanager
    def open_loaded(fake=None, **options):
        for name, value in (fake or {}).items():
            monkeypatch.setenv(f"FAKE_{name}", str(value))
        with closing(make_tester(installation, **options)) as tester:
            tester.open()
            tester.load(STREAMS, PLUGIN)
            tester.attachment.ask = Mock(wraps=tester.attachment.ask)
            yield tester

    return open_loaded


@pytest.fixture
def fake_tester(open_fake):
    with open_fake() as tester:
        yield tester


@pytest.fixture
def measure(open_fake):
    """Provide a function that measures a trial with a fake server of these settings."""

    def measure_trial(trial=TRIAL, fake=None, **options):
        with open_fake(fake, **options) as tester:
            return tester.measure(trial)

    return measure_trial


def find_last_request(tester):
    """Return the arguments of the last request for a trial."""
    calls = tester.attachment.ask.call_args_list
    return next(call.kwargs for call in reversed(calls) if call.args == ("run_trial",))


def test_first_interpreter_that_imports_client_is_used(installation, monkeypatch):
    """A known interpreter is used again without starting others."""
    monkeypatch.setattr(channel, "_imported", {})
    interpreters, started = ["/nowhere/python", sys.executable], []
    monkeypatch.setattr(channel, "list_interpreters", lambda named: interpreters)

    def start(python):
        started.append(python)
        return ClientWorker(python)

    for _ in range(2):
        worker, hello = channel.start_client(installation, "", start, 60)
        worker.close()
        assert hello["executable"] == sys.executable
    assert started == ["/nowhere/python", sys.executable, sys.executable]
    interpreters.pop()
    with expect_error("missing-program", mentions="nowhere/python"):
        channel.start_client(installation, "other", start, 60)


@pytest.mark.parametrize(("value", "virtual"), [
    ("yes", True), (True, True), ("no", False), (False, False), ("N/A", False),
])  # fmt: skip
def test_port_is_virtual_if_trex_reports_it(value, virtual):
    info = {"index": 0, "is_virtual": value}
    (port,) = stats.parse_server({"ports": [{"index": 0}]}, {}, {0: info}, {0: ""}).ports
    assert port.is_virtual is port.describe()["virtual"] is virtual


def test_missing_client_is_reported(tmp_path):
    with closing(ClientWorker(sys.executable)) as worker:
        with expect_error("tester-fault", kind=WorkerError) as caught:
            worker.ask("import_client", trex_dir=str(tmp_path))
        assert caught.value.kind == "client"


@pytest.mark.parametrize("minor", [8, 13])
def test_worker_compiles_for_old_and_new_interpreters(minor):
    """The worker imports the standard library, TRex's modules, and v6t modules that are sent to it."""
    top, modules = Path(stl.__file__).parents[3], {*STL_MODULES, *ASTF_MODULES}
    imported = set()
    for path in modules:
        code = re.sub(r"if TYPE_CHECKING:(\n    .*)+", "", (top / path).read_text())
        for node in ast.walk(ast.parse(code, feature_version=(3, minor))):
            if isinstance(node, ast.ImportFrom):
                imported.update(f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                imported.add(node.names[0].name)
    sent_modules = ["v6t." + path[:-3].replace("/", ".") + "." for path in modules]
    external = [name for name in imported if not f"{name}.".startswith(tuple(sent_modules))]
    foreign = {name.split(".")[0] for name in external}
    assert foreign - set(sys.stdlib_module_names) == {"trex", "zmq"}


def test_worker_ends_with_its_parent():
    code = """
import sys, time
from v6t.drivers.trex.channel import ClientWorker
worker = ClientWorker(sys.executable)
print(worker.process.pid, flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: faketrex.has_ended(worker), "the worker's end")


@pytest.mark.parametrize("missing", [0, 1])
def test_unrecorded_frames_are_not_device_losses(fake_tester, monkeypatch, missing):
    """An incomplete recording makes the trial invalid, for example of a reset test."""
    trial = replace(TRIAL, mode="forward", device_event=DeviceEvent("software-reset", 0.2))
    numbers = np.arange(trial.frames - missing)
    frames = np.zeros((len(numbers), 80), np.uint8)
    faketrex.stamp_frames(frames, 7, numbers)
    monkeypatch.setattr(fake_tester._recordings, "read", lambda _: iter([(numbers / 1000, frames)]))
    verdict = assess_trial(trial, fake_tester.measure(trial), sending_time_tolerance=2.0)
    assert verdict.valid == (not missing)
    assert ["499 of 500" in reason for reason in verdict.reasons] == [True] * missing


@pytest.mark.parametrize(("options", "slow"),
                         [({}, 1), ({}, 2), ({"cores": 4, "counting": "ports"}, 2)])  # fmt: skip
def test_sending_time_is_measured_at_the_ports(open_fake, options, slow):
    """A tester that sends at half the rate is detected with each counting method."""
    with open_fake({"SLOW": slow}, **options) as tester:
        for _ in range(5):  # repeated on a busy machine
            result = tester.measure(TRIAL)
            verdict = assess_trial(TRIAL, result, sending_time_tolerance=1.5)
            if verdict.valid == (slow == 1):
                break
        assert verdict.valid == (slow == 1)
        for counted in result.directions.values():
            least = counted.sending_time_s - counted.sending_time_error_s
            assert 0.499 < least <= counted.max_sending_time_s
            assert slow == 1 or least > 0.9


ALL_CAPTURED = {"stamped": {"forward": {"received": 200, "captured": 200}}}
NONE_RECEIVED = {"stamped": {"forward": {"received": 0, "captured": 0}}}
ONE_NOT_CAPTURED = {"stamped": {"forward": {"received": 200, "captured": 199}}}
CORES = {"counting": "ports", "cores": 2, "by_trailer": False}
BY_PORTS, HIDDEN = "less control frames", "hide a lost one"


@pytest.mark.parametrize(("options", "figures", "expected"), [
    ({}, [], ["in faster ones and with several data path cores it counts"]),
    ({}, [{"cores": 1}], ["in faster ones it counts"]),
    ({"cache": 9}, [{"cores": 1}], ["hides a lost one", "cache has no effect"]),
    ({}, [{"cores": 1, "by_trailer": False}], ["none is compared"]),
    ({"lab": True}, [], ["in faster ones it counts", "cancel out"]),
    ({"lab": True}, [{"counting": "trailer"}], ["in faster ones it counts"]),
    ({"lab": True}, [{"counting": "trailer and marks"}], ["by a trailer", "cancel out"]),
    ({"counting": "ports", "cache": 9}, [], ["duplicate hides a lost frame"]),
    ({"counting": "ports"}, [{"cores": 1}], ["none is compared"]),
    ({}, [CORES], ["none is compared", HIDDEN]),
    ({}, [CORES | ALL_CAPTURED], ["some are compared", HIDDEN]),
    ({}, [CORES | {"timed": "tagged frames"}], [BY_PORTS, HIDDEN, "2 data path cores sent"]),
    ({}, [{"cores": 1, "timed": "tagged frames"}], ["by a trailer"]),
    ({}, [{"version": "v3.08"}], ["by a trailer"]),
    ({}, [{"version": "v3.06"}], ["by a trailer", "TRex v3.06"]),
    ({}, [CORES | one for one in (ALL_CAPTURED, ONE_NOT_CAPTURED, NONE_RECEIVED)],
     [BY_PORTS, HIDDEN, "in 1 of 2 trials"]),
])  # fmt: skip
def test_warnings_depend_on_trials_of_run(options, figures, expected):
    warnings = [*Trex(options).list_warnings(figures)]
    assert len(warnings) == len(expected)
    assert all(text in warning for text, warning in zip(expected, warnings, strict=True))


@pytest.mark.parametrize(("several", "options", "stamped", "other_cores"), [
    (False, {"cores": 1}, 500, None), (False, {"cores": 2}, 500, {"server": 1, "option": 2}),
    (True, {}, 200, None), (True, {"cores": 1}, 200, {"server": 2, "option": 1}),
    (True, {"sample": 0}, 0, None), (True, {"cache": 100}, 0, None),
    (True, {"counting": "ports"}, 0, None), (True, {"pairs": ({"ports": (2, 3)},)}, 0, None),
])  # fmt: skip
def test_attached_server_keeps_its_cores_of_which_one_stamps_frames(
    open_fake, several, options, stamped, other_cores
):
    """Frames of several cores are counted by ports; captures with several queues need service mode."""
    ports, by_cores = 4 if "pairs" in options else 2, ("ports", 2) if several else ("trailer", 1)
    with open_fake({"PORTS": ports, "MULTIQUEUE": 1 if several else ""}, **options) as tester:
        figures, request = tester.measure(TRIAL).tester, find_last_request(tester)
        timing = {"tags", "every-frame"} if stamped else set()
        assert tester.capabilities == timing if several else "ipdv" in tester.capabilities
        assert tester.describe().get("other_cores") == other_cores
    assert (figures["counting"], figures["cores"]) == by_cores
    assert (figures["version"], figures["by_trailer"]) == ("v3.08", not several)
    for bursts in request["bursts"].values():
        assert sum(b["frames"] for b in bursts) == 1000 / ports
        assert sum(b["frames"] for b in bursts if b["pg_id"] is not None) == stamped
    assert ("sample" in {c["kind"] for c in request["captures"]}) == bool(stamped)
    assert ("stamped" in figures) == (several and bool(stamped))


def test_attached_multicore_server_rejects_single_core_trials(open_fake, installation):
    capabilities = make_tester(installation).capabilities
    with open_fake({"MULTIQUEUE": 1}) as tester:
        timed = replace(TRIAL, frame_timeout_s=0.01)
        event = replace(TRIAL, device_event=DeviceEvent("change", 0.1))
        for trial in (timed, replace(TRIAL, delays=DelayRequest(ipdv=True)), event):
            assert trial.required_capabilities <= capabilities
            assert not trial.required_capabilities <= tester.capabilities
            with expect_error("unsupported-by-tester", kind=TesterError):
                tester.measure(trial)


def test_run_on_unsuitable_server_ends_before_first_trial(installation, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_MULTIQUEUE", "1")
    run = resolve(plugin="mape-br", tester="trex", tester_options=fake_options(installation),
                  benchmarks=("throughput-frame-timeout",),
                  procedure={"frame_timeout": {"deadline_ms": 10.0}})  # fmt: skip
    with expect_error("unsupported-by-tester", kind=EnvironmentLacking):
        execute(make_setup(run), tmp_path / "run", Listener())
    assert not (tmp_path / "run").exists()


def test_port_pairs_compare_samples_above_stamping_limit(open_fake, monkeypatch):
    monkeypatch.setattr(trex_bursts, "MAX_STAMPED_FPS", 1000.0)
    with open_fake({"PORTS": 4}, pairs=({"ports": (2, 3)},)) as tester:
        for rate, counting, stamped in ((1000.0, "ports", 100), (500.0, "trailer", 125)):
            result = tester.measure(replace(TRIAL, rate_fps=rate))
            assert (result.faults, result.tester["counting"]) == ((), counting)
            request = find_last_request(tester)
            sampled = [c["ports"] for c in request["captures"] if c["kind"] == "sample"]
            assert sampled == [[1, 3], [0, 2]]
            assert sorted(request["bursts"]) == ["0", "1", "2", "3"]
            ids = set()
            for bursts in request["bursts"].values():
                (sample,) = [b for b in bursts if b["pg_id"] is not None]
                ids.add(sample["pg_id"])
                assert sample["frames"] == stamped
                assert sum(b["frames"] for b in bursts) == rate / 4
            assert len(ids) == 4


@pytest.mark.parametrize(("counting", "used"), [("auto", "trailer"), ("ports", "ports")])
def test_eight_port_pairs_share_the_captures_of_a_server(open_fake, monkeypatch, counting, used):
    """TRex has ten captures for all its ports."""
    pairs = tuple({"ports": (port, port + 1)} for port in range(2, 16, 2))
    with open_fake({"PORTS": 16}, pairs=pairs, counting=counting) as tester:
        result = tester.measure(TRIAL)
        assert (result.faults, result.tester["counting"]) == ((), used)
        assert [d.count_frames("received") for d in result.directions.values()] == [500, 500]
        monkeypatch.setattr(trex_tester, "MAX_CAPTURES", 1)
        with expect_error("too-many-for-trex"):
            tester.measure(TRIAL)


@pytest.mark.parametrize("counting", ["auto", "ports"])
def test_port_pair_without_frames_is_skipped(measure, counting):
    trial, pairs = replace(TRIAL, mode="forward", duration_s=0.001), ({"ports": (2, 3)},)
    result = measure(trial, {"PORTS": "4"}, pairs=pairs, counting=counting)
    assert result.directions["forward"].count_frames("received") == 1


SHARED, SEPARATE = ThreadPlacement(0, 0, (1,)), ThreadPlacement(0, 1, (2,))


@pytest.mark.parametrize(("options", "cases"), [
    # placement None: a server that v6t has not started
    ({}, [(SHARED, 20e3, False), (SHARED, 10e3, True), (SEPARATE, 20e3, True), (None, 20e3, True)]),
    ({"marks": False}, [(SHARED, 20e3, True)]),
    ({"marks": True}, [(SEPARATE, 1e3, False)]),
])  # fmt: skip
def test_frames_are_marked_if_threads_share_cpus(open_fake, options, cases):
    """Stamps need much CPU time, but detect reordering; they are used up to a limit."""
    with open_fake(**options) as tester:
        for placement, bound_fps, stamped in cases:
            tester.attachment.placement = placement
            tester.load(STREAMS, PLUGIN)
            plain = replace(TRIAL, duration_s=0.1, search_limit_fps=bound_fps)
            for delays, has_stamps in ((DelayRequest(), True), (None, stamped)):
                result = tester.measure(replace(plain, delays=delays))
                assert result.tester["counting"] == ("trailer" if has_stamps else "marks")
                # the fake server counts marked frames only with the nonce of their trial
                received = [d.count_frames("received") for d in result.directions.values()]
                assert received == [100, 100]
                bursts = itertools.chain(*find_last_request(tester)["bursts"].values())
                assert {b["pg_id"] is not None for b in bursts} == {has_stamps}


def test_control_frames_before_a_refused_start_are_no_fault(measure):
    result = measure(fake={"LATE": "1", "RESTLESS": "1"}, counting="ports")
    assert (result.faults, result.is_disturbed) == ((), False)


def test_frames_before_common_start_are_not_counted(measure):
    """If one port starts too late, all ports are stopped and started again."""
    result = measure(fake={"LATE": "3"})
    assert [d.count_frames("sent") for d in result.directions.values()] == [500, 500]
    assert ({*result.tester["cpu"]}, {*result.tester["rx_cpu"]}) == ({12.0}, {1.0})
    assert assess_trial(TRIAL, result, sending_time_tolerance=1.5).passed


def test_cpu_limit_is_100_percent_on_linux_interfaces(fake_tester, installation):
    assert fake_tester.attachment.cpu_limit == 100
    ports = [stats.PortFacts(index=n, driver="net_i40e") for n in (0, 1)]
    fake_tester.attachment.facts = stats.ServerFacts(ports=ports)
    assert fake_tester.attachment.cpu_limit == 85
    assert make_tester(installation, cpu_limit=70).attachment.cpu_limit == 70


@pytest.mark.parametrize(("variable", "code", "kind"), [
    ("STOLEN", "tester-fault", "stolen"),
    ("DIE", "worker-failed", None),
    ("REMOVED", "tester-fault", "stolen"),  # another user removes a capture
    ("LATE", "tester-fault", "start"),  # four starts are late
])  # fmt: skip
def test_failure_during_trial_ends_it_with_a_cause(measure, variable, code, kind):
    with expect_error(code) as caught:
        measure(fake={variable: "4"}, counting="ports")
    assert getattr(caught.value, "kind", None) == kind


def test_captures_of_other_users_are_kept(measure, tmp_path):
    """Captures on the run's ports, 0 and 1, are leftovers of a client that died."""
    fake = {"STATE": str(tmp_path), "PORTS": "4", "CAPTURES": "2 0 3 1"}
    measure(replace(TRIAL, duration_s=0.05), fake, counting="ports")
    assert (tmp_path / "captures").read_text().split() == ["2", "3"]


@pytest.mark.parametrize("call", ["clear_stats", "get_stats"])
def test_control_frame_next_to_a_counter_reading_is_not_a_test_frame(measure, call):
    """A frame of the device arrives just after port counters are cleared or read."""
    result = measure(replace(TRIAL, duration_s=0.1), {"CONTROL_AFTER": call}, counting="ports")
    forward = result.directions["forward"]
    assert (forward.count_frames("received"), forward.count_frames("surplus")) == (100, 0)


def test_link_failure_of_each_port_disturbs_the_trial(measure):
    result = measure(replace(TRIAL, mode="forward"), {"LINK": "down"})
    assert sum("went down" in fault for fault in result.faults) == 2
    assert result.is_disturbed


@pytest.mark.parametrize(("name", "value", "options", "code", "mentions", "hint"), [
    ("OWNER", "alice", {}, "tester-fault", "alice", "force"),
    ("MODE", "ASTF", {}, "unsupported-by-tester", "", ""),
    ("SERVER", "down", {}, "tester-fault", "127.0.0.1", ""),
    # the server listens, but does not answer
    ("SERVER", "down", {"start": "auto"}, "tester-fault", "Failed to get server", ""),
    ("SERVER", "up", {"start": "always"}, "tester-fault", "already", "start: auto"),
])  # fmt: skip
def test_unusable_server_is_rejected(measure, name, value, options, code, mentions, hint):
    with expect_error(code, mentions=mentions) as caught:
        measure(fake={name: value}, **options)
    assert hint in (caught.value.hint or "")


def test_server_without_interfaces_is_not_started(installation, monkeypatch, listener):
    listener.close()
    monkeypatch.setenv("FAKE_SERVER", "down")
    with expect_error("missing-setting"):
        make_tester(installation, start="auto").open()


@pytest.mark.parametrize("needs", [{"frame_timeout_s": 1e-6}, {"delays": DelayRequest()}])
def test_server_without_timed_frames_is_a_fault(fake_tester, needs):
    """Otherwise, without --hdrh, all frames would be in time or infinitely late."""
    faults = fake_tester.measure(replace(TRIAL, **needs)).faults
    problem = "timed 0 of 500 frames that arrived: the server lacks --hdrh"
    assert [problem in fault for fault in faults] == [True, True]


def test_lost_server_is_an_error(fake_tester, installation, listener):
    listener.close()
    with expect_error("tester-fault", kind=WorkerError):
        fake_tester.measure(TRIAL)
    tester = make_tester(installation)
    with closing(tester), expect_error("tester-fault", kind=WorkerError) as caught:
        tester.open()
    assert "start it again" in caught.value.hint
    assert f"127.0.0.1:{os.environ['FAKE_PORT']}" in caught.value.message


def test_worker_without_ssh_server_names_the_host_to_check():
    refusal = "ssh: connect to host trex1 port 22: Connection refused"
    command = [sys.executable, "-c", f"raise SystemExit({refusal!r})"]
    remote = SimpleNamespace(host="trex1", make_command=lambda program: command)
    with expect_error("worker-failed") as caught:
        ClientWorker("python3", remote=remote).ask("import_client", trex_dir="/opt/trex")
    assert refusal in caught.value.message
    assert "trex1" in caught.value.hint and "tester.options.ssh" in caught.value.hint


@pytest.fixture
def restartable_server(tmp_path, monkeypatch, listener):
    """Provide a server with two cores that closes its port some time after it is stopped.

    Returns:
        A function that makes its tester, the directory of files that name the server's states, and its thread.
    """
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("FAKE_STATE", str(state))
    monkeypatch.setenv("FAKE_MULTIQUEUE", "1")
    address, end = listener.getsockname(), threading.Event()

    def serve():
        wait_until((state / "ended").exists, "the end of the first server")
        time.sleep(0.3)
        if (state / "launched").exists():
            (state / "launched early").touch()
        listener.close()
        wait_until((state / "launched").exists, "another server")
        with socket.create_server(address):
            (state / "started").touch()
            end.wait(30)

    options = {"start": "auto", "restart": True, "counting": "trailer", "fence": False}
    make = partial(make_starter, tmp_path, f"touch {state}/launched; exec sleep 60", **options)
    server = threading.Thread(target=serve, daemon=True)
    yield make, state, server
    end.set()
    if server.ident:
        server.join()


@pytest.mark.parametrize("owner", ["", "alice"])
def test_unsuitable_server_is_stopped_before_restart(restartable_server, monkeypatch, owner):
    make, state, server = restartable_server
    monkeypatch.setenv("FAKE_OWNER", owner)
    server.start()
    with closing(make(force=bool(owner))) as tester:
        tester.open()
        states = {file.name for file in state.iterdir()}
        assert states == {"ended", "disconnected", "launched", "started"}
        facts = tester.describe()
        assert (facts["started_by_v6t"], facts["counting"]) == (True, "trailer")
        assert facts.get("displaced") == ({"1": "alice"} if owner else None)


def test_server_with_owned_ports_is_not_stopped(restartable_server, monkeypatch):
    make, state, _ = restartable_server
    monkeypatch.setenv("FAKE_OWNER", "alice")
    with expect_error("tester-fault", mentions="alice", kind=WorkerError) as caught:
        make().open()
    assert "force: true" in caught.value.hint
    assert list(state.iterdir()) == []


def test_server_that_does_not_stop_is_an_error(restartable_server, monkeypatch):
    make, state, _ = restartable_server
    monkeypatch.setattr(attachment, "SHUTDOWN_S", 0.3)
    with expect_error("tester-fault", mentions="0.3", kind=WorkerError):
        make().open()
    assert {file.name for file in state.iterdir()} == {"ended", "disconnected"}


def make_starter(path, script, **options):
    """Make a tester that starts a shell script as its server."""
    options = {"start": "always", "interfaces": ("eth8", "eth9"), **options}
    return make_tester(faketrex.make_installation(path / "v3.08", script), **options)


def test_unreachable_remote_server_is_not_started_locally(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "down")
    script = f"touch {tmp_path}/launched; exec sleep 60"
    tester = make_starter(tmp_path, script, start="auto", server="trex.example.net")
    with expect_error("tester-fault", mentions="trex.example.net", kind=EnvironmentLacking) as info:
        tester.open()
    assert "ssh: user@host" in info.value.hint
    assert not (tmp_path / "launched").exists()


@pytest.mark.parametrize(("program", "options", "output"), [
    ("echo 'EAL: Error - no hugepages'; exit 1", {}, "EAL: Error - no hugepages\n"),
    ("echo binding; sleep 60", {"start_deadline_s": 3}, "binding\n"),
])  # fmt: skip
def test_server_start_error_names_its_output(
    tmp_path, monkeypatch, listener, program, options, output
):
    listener.close()
    monkeypatch.setenv("FAKE_SERVER", "down")
    with expect_error("tester-fault", kind=TesterError) as caught:
        make_starter(tmp_path, program, fence=False, **options).open()
    advice, _, path = caught.value.hint.partition("all output: ")
    assert "v6t doctor" in advice
    log = Path(path)
    assert log.read_text().startswith(output)
    log.unlink()


def test_started_server_processes_are_stopped(tmp_path):
    path = faketrex.make_installation(tmp_path / "v3.08", "sleep 61 & exec sleep 62")
    server = Server(make_server_program(str(path), "", ["-c", "1"], prefix="v6t0n0"), None, None)
    # the server's shell, its watcher and the server
    wait_until(lambda: len(faketrex.list_descendants(server.process.pid)) == 3, "the server")
    processes = faketrex.list_descendants(server.process.pid)
    server.close()
    assert all(faketrex.has_ended(p) for p in processes)


@pytest.mark.parametrize("program", ["exec sleep 61", "trap '' TERM; while :; do sleep 1; done"])
def test_server_stopped_during_start_ends_soon(tmp_path, program):
    """The shell may not lead its process group yet, and the server may ignore SIGTERM."""
    path = faketrex.make_installation(tmp_path / "v3.08", program)
    server = Server(make_server_program(str(path), "", [], prefix="v6t0n0"), None, None)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 10


def test_unfenced_server_gives_a_warning(tmp_path, monkeypatch, listener):
    listener.close()
    faketrex.write_script(tmp_path / "bin" / "nft", "echo 'Operation not permitted' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with closing(make_starter(tmp_path, "exec sleep 60")) as tester:
        tester.open()
        assert tester.describe()["fence_failed"] is True


THREADS = """
import os, threading, time
def run(name):
    open("/proc/thread-self/comm", "w").write(name)
    os.write(1, b"ready\\n")
    time.sleep(60)
for name in ("TRex RX", "Trex DP core 1"):
    threading.Thread(target=run, args=(name,), daemon=True).start()
time.sleep(60)
"""


@contextmanager
def run_threads(prefix):
    """Run a process with the threads of a server, and yield its PID."""
    command = ["_t-rex-64", "-c", THREADS, "--prefix", prefix]
    with subprocess.Popen(command, executable=sys.executable, start_new_session=True,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        try:
            assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
            yield process.pid
        finally:
            process.kill()


def list_threads(pid):
    """Return CPUs and priority of each thread, by name."""
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        number, name = int(task.name), (task / "comm").read_text().strip()
        threads[name] = os.sched_getaffinity(number), os.getpriority(os.PRIO_PROCESS, number)
    return threads


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_only_threads_of_one_server_are_moved():
    first, *_, last = sorted(os.sched_getaffinity(0))
    normal = os.getpriority(os.PRIO_PROCESS, 0)
    prioritized = -20 if os.geteuid() == 0 else normal
    placed = ThreadPlacement(first, first, (last,)).list_threads()
    with run_threads("v6t1n0") as own, run_threads("v6t1n1") as other:
        before = list_threads(other)
        assert stl.StlWorker().place_threads("v6t1n0", placed) == 3
        threads = list_threads(own)
        assert list_threads(other) == before
        group = Path(f"/proc/{own}/autogroup")
        if os.geteuid() == 0 and group.exists():
            assert group.read_text().split()[-1] == "-20"
        with pytest.raises(RequestError, match="CPU 1023"):
            stl.StlWorker().place_threads("v6t1n0", {**placed, "trex rx": (1023, None)})
    assert threads.pop("Trex DP core 1") == ({last}, prioritized)
    assert threads.pop("TRex RX") == ({first}, prioritized)
    assert [*threads.values()] == [({first}, normal)]


def test_server_listening_on_port_is_identified_among_several():
    with ExitStack() as stack:
        servers = {}
        for _ in range(2):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = subprocess.Popen(["_t-rex-64", "-I", "-S", "-c", "input()"],
                                      executable=sys.executable, stdin=subprocess.PIPE,
                                      pass_fds=[listener.fileno()])  # fmt: skip
            stack.enter_context(server)
            servers[listener.getsockname()[1]] = str(server.pid)
        assert {port: host.find_server(port) for port in servers} == servers
        assert host.find_server(1) is None


def test_ssh_option_has_short_form_and_commands_are_quoted():
    with expect_error("wrong-form", path=["ssh", "host"]):
        Trex({"ssh": "u@-oProxyCommand=x"})
    assert Trex({"ssh": "u@h"}).options == Trex({"ssh": {"host": "h", "user": "u"}}).options
    remote = Trex({"ssh": "u@h", "ssh_config": ""}).options.remote
    assert remote.make_command(["a b", "$(c)"])[-3:] == ["--", "h", "exec 'a b' '$(c)'"]
    assert "User u\n" in Path(remote.make_command([])[2]).read_text()


def test_login_shell_output_is_ignored_and_hung_worker_is_killed():
    command = ["sh", "-c", 'echo welcome; exec "$@"', "sh"]
    remote = SimpleNamespace(host="trex1", make_command=lambda program: [*command, *program])
    with closing(ClientWorker(sys.executable, remote=remote)) as worker:
        assert worker.ask("examine_host", interfaces=[])["interfaces"] == {}
    hanging = ["sh", "-c", "echo no; head -n 1 >/dev/null; exec sleep 60"]
    hung = SimpleNamespace(host="trex1", make_command=lambda _: hanging)
    worker = ClientWorker("", remote=hung)
    with expect_error("timeout", mentions="no"):
        worker.ask("examine_host", deadline_s=0.5, interfaces=[])
    worker.close(0.1)
    assert worker.process.returncode == -signal.SIGTERM


def test_server_is_stopped_if_closing_worker_fails(tmp_path, monkeypatch, listener):
    listener.close()
    tester = make_starter(tmp_path, "exec sleep 60", fence=False)
    tester.open()
    server = tester.attachment.server.process
    close = tester.attachment.worker.close

    def fail(*_):
        close()
        raise KeyboardInterrupt

    monkeypatch.setattr(tester.attachment.worker, "close", fail)
    with pytest.raises(KeyboardInterrupt):
        tester.close()
    assert server.returncode is not None


def test_late_answer_is_not_used_for_next_request(installation):
    with closing(ClientWorker(sys.executable)) as worker:
        with expect_error("timeout", mentions="import_client", kind=TesterError):
            worker.ask("import_client", trex_dir=str(installation), deadline_s=0)
        assert worker.ask("examine_host", interfaces=[])["interfaces"] == {}
        with expect_error("tester-fault", kind=WorkerError):
            worker.ask("nonsense")
        assert worker.ask("close") is None


class StuckPorts:
    """Ports whose send rings release frames at each push, and whose peers receive others at each reading."""

    def __init__(self, at_push, own, at_reading):
        self.at_push = itertools.chain(at_push, itertools.repeat(0))
        self.at_reading = itertools.chain(at_reading, itertools.repeat(0))
        self.own, self.received, self.pushed = own, 100, 0

    def push_packets(self, frames, ports, force):
        self.pushed += 1
        self.received += next(self.at_push) + self.own

    def get_stats(self, ports):
        self.received += next(self.at_reading)
        return {1: {**PORT, "ipackets": self.received}, "global": SERVER}


@pytest.mark.parametrize(("names", "known"), [
    (["net_af_packet"] * 2, "net_af_packet"), (["net_af_packet", "net_memif"], ""), ([], ""),
])  # fmt: skip
def test_port_driver_is_chosen_if_all_ports_use_it(names, known):
    assert choose_driver(names).name == known


@pytest.mark.parametrize(("own", "at_reading", "at_push", "stuck", "pushed"), [
    *((own, (), at_push, stuck, pushed) for own in (0, 1) for at_push, stuck, pushed in (
        ([], 0, 2),
        ([1], 1, 2),
        ([277, 277, 5], 559, 4),
        ([92] * 89 + [4], 8192, 91),  # a full ring with long frames
    )),
    (0, [0, 900, 400, 7], [], 0, 2),  # a queue of the device that empties after the wait
    (0, [0, 900, 400, 7], [3], 3, 2),
    (0, [0, 0, 0, 1], [], 0, 2),  # a router advertisement at the same time
    (0, itertools.repeat(1), [277], 0, 0),  # frames arrive without a pause
    (0, [0, 0, *[50] * 100], [], 4900, af_packet.MAX_PUSHES),  # frames do not end after pushes
])  # fmt: skip
def test_frames_stuck_in_send_ring_are_flushed_and_a_fault(
    monkeypatch, own, at_reading, at_push, stuck, pushed
):
    module = SimpleNamespace(PacketBuffer=lambda frame, port_src, port_dst: frame)
    for name in ("trex", "trex.common", "trex.common.trex_client"):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(af_packet, "PUSH_S", 0.0)
    ports = StuckPorts(at_push, own, at_reading)
    driver = choose_driver(["net_af_packet"])
    count_received = partial(stl.count_received, ports, [1])
    faults = [f.partition(" left ")[0] for f in driver.find_faults(ports, [0], count_received)]
    assert faults == ([f"{stuck} frames"] if stuck else [])
    assert ports.pushed == pushed


DRIVER = Path(channel.__file__).parent
PORT = {"opackets": 1, "ipackets": 2, "oerrors": 3, "ierrors": 4}
SERVER = {"queue_full": 5, "cpu_util_raw": 6.5, "rx_cpu_util": 7.5}


@pytest.mark.parametrize("missing", PORT)
def test_missing_port_counter_is_an_error(missing):
    port = {name: value for name, value in PORT.items() if name != missing}
    with pytest.raises(TypeError):
        stats.parse_stats({0: port, "global": SERVER}, [0])


@pytest.mark.parametrize(("answer", "drops"), [(0, 0), (5, 5), ("N/A", None)])
def test_unreadable_queue_drops_are_none(answer, drops):
    client = SimpleNamespace(global_stats=SimpleNamespace(get_rel=lambda _: answer))
    assert rpc.count_queue_drops(client) == drops


def test_trial_with_unreadable_queue_drops_is_invalid(open_fake):
    with open_fake({"DROPS": "{}[0] None.x 0"}) as tester:
        results = [tester.measure(TRIAL) for _ in range(3)]
    verdicts = [assess_trial(TRIAL, result, sending_time_tolerance=9.0) for result in results]
    assert [len(result.faults) for result in results] == [1, 1, 0]
    assert [result.is_disturbed for result in results] == [True, True, False]
    assert [verdict.valid for verdict in verdicts] == [False, False, True]
    assert not any(loss for verdict in verdicts for loss in verdict.loss.values())


@pytest.mark.parametrize("modules", [STL_MODULES, ASTF_MODULES])
def test_worker_starts_with_modules_of_one_engine(modules):
    engines = {"drivers/trex/client/stl.py", "drivers/trex/client/astf.py"}
    assert {*STL_MODULES} ^ {*ASTF_MODULES} == engines
    with closing(ClientWorker(sys.executable, modules=modules)) as worker:
        assert worker.ask("examine_host", interfaces=[])["interfaces"] == {}


@pytest.mark.parametrize(("pattern", "modules"), [
    (r"\btcps_|\berr_\w+'|opackets|ipackets|rx_pkts|cpu_util", {"client/stats.py"}),
    (r"\.conn\b|\bclient\.ports\b|wait_for_profile|global_stats", {"client/rpc.py"}),
    ("(?i)af_?packet|linux_driver|on_linux", {"af_packet.py", "interfaces.py"}),
])  # fmt: skip
def test_trex_and_linux_names_occur_in_few_modules(pattern, modules):
    uses = set()
    for path in DRIVER.rglob("*.py"):
        code = re.sub(r'(?s)""".*?"""|#[^\n]*', "", path.read_text())
        if re.search(pattern, code):
            uses.add(path.relative_to(DRIVER).as_posix())
    assert uses == modules
