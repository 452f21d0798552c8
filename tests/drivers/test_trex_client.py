"""The workers of the TRex client: parsed answers, and the modules of each worker."""

from __future__ import annotations

import ast
import re
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from v6t.drivers.trex import channel
from v6t.drivers.trex.channel import ASTF_MODULES, STL_MODULES, ClientWorker
from v6t.drivers.trex.client import rpc, stats
from v6t.procedures.trial_runner import TrialRunner
from v6t.trials.conditions import Conditions

from . import faketrex
from .test_trex_worker import TRIAL, listener, open_loaded  # noqa: F401  (a fixture)

DRIVER = Path(channel.__file__).parent
PORT = {"opackets": 1, "ipackets": 2, "oerrors": 3, "ierrors": 4}
TOTAL = {"queue_full": 5, "cpu_util_raw": 6.5, "rx_cpu_util": 7.5}


def test_stats_of_ports_and_server():
    parsed = stats.parse_stats({0: PORT, 1: PORT, "total": {}, "global": TOTAL}, [1])
    assert parsed == stats.ServerStats({1: stats.PortStats(1, 2, 3, 4)}, 5, 6.5, 7.5)


@pytest.mark.parametrize("missing", PORT)
def test_counter_of_a_port_that_trex_does_not_send_is_not_zero(missing):
    port = {name: value for name, value in PORT.items() if name != missing}
    with pytest.raises(TypeError):
        stats.parse_stats({0: port, "global": TOTAL}, [0])


def test_groups_without_totals():
    flows = {"7": {"tx_pkts": {0: 9, "total": 9}, "rx_pkts": {1: 8}}, "global": {"rx_err": {}}}
    delays = {"7": {"err_cntrs": {"dup": 1, "out_of_order": 2}, "latency": {"total_min": 3.5}}}
    parsed = stats.parse_groups({"flow_stats": flows, "latency": delays, "ver_id": {}})
    assert parsed == {7: stats.GroupStats({0: 9}, {1: 8}, 1, 2, 3.5)}


def test_tcp_counters_have_names_and_their_zeros_may_lack():
    raw = {"tcps_connattempt": 3, "err_no_memory": 2, "err_l3_cs": 1, "m_active_flows": 4.5}
    sides = stats.parse_traffic({"client": raw, "server": {}})
    faults = {"had no memory for connections (err_no_memory)": 2}
    assert sides["client"] == stats.TcpCounters(3, wrong_segments=1, faults=faults, record=raw)
    assert sides["server"] == stats.TcpCounters()


@pytest.mark.parametrize(("answer", "drops"), [(0, 0), (5, 5), ("N/A", None)])
def test_queue_drops_are_a_number_or_not_counted(answer, drops):
    client = SimpleNamespace(global_stats=SimpleNamespace(get_rel=lambda _: answer))
    assert rpc.count_queue_drops(client) == drops


@pytest.mark.parametrize("error", [KeyError, RuntimeError, AttributeError])
def test_failed_reading_of_queue_drops_is_not_zero(error):
    def fail(_):
        raise error("no counters")

    with pytest.raises(error):
        rpc.count_queue_drops(SimpleNamespace(global_stats=SimpleNamespace(get_rel=fail)))


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "faults"), [(["'N/A'"], [0]), (["1 / 0", "0"], [1, 0])])
def test_trial_with_unreadable_queue_drops_is_repeated(tmp_path, monkeypatch, answers, faults):
    fake = faketrex.API.replace(
        "def get_rel(self, name): return 0",
        f"answers = {answers}\n    def get_rel(self, name): return eval(self.answers.pop(0))",
    )
    monkeypatch.setattr(faketrex, "API", fake)
    results = []
    with open_loaded(faketrex.make_installation(tmp_path / "v3.08")) as tester:

        def measure(trial):
            results.append(tester.measure(trial))
            return results[-1]

        conditions = Conditions(104, 64, "bidirectional", 0.0, 0.0, sending_time_tolerance=9.0)
        attempts = TrialRunner(conditions, "t", measure, None, 1, 1).run(TRIAL).attempts
    assert [len(result.faults) for result in results] == faults
    assert [result.is_disturbed for result in results] == [bool(number) for number in faults]
    assert [a.verdict.valid for a in attempts] == [not number for number in faults]
    assert not any(loss for a in attempts for loss in a.verdict.loss.values())


@pytest.mark.parametrize("modules", [STL_MODULES, ASTF_MODULES])
def test_worker_starts_with_the_modules_of_its_engine_alone(modules):
    engines = {"drivers/trex/client/stl.py", "drivers/trex/client/astf.py"}
    assert {*STL_MODULES} ^ {*ASTF_MODULES} == engines
    with closing(ClientWorker(sys.executable, modules=modules)) as worker:
        assert worker.ask("examine_host", interfaces=[])["interfaces"] == {}


@cache
def read_code(path):
    """Return the code of a module without comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("pattern", "modules"),
    [
        (r"\btcps_|\berr_\w+'|opackets|ipackets|rx_pkts|cpu_util", {"client/stats.py"}),
        (r"\.conn\b|\bclient\.ports\b|wait_for_profile|global_stats", {"client/rpc.py"}),
        ("(?i)af_?packet|linux_driver|on_linux", {"af_packet.py", "interfaces.py"}),
    ],
)
def test_names_of_trex_and_of_linux_are_read_in_one_place(pattern, modules):
    code = {path.relative_to(DRIVER).as_posix(): read_code(path) for path in DRIVER.rglob("*.py")}
    assert {name for name, text in code.items() if re.search(pattern, text)} == modules
