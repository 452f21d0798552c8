"""CE and PE of ipv4aas behind real sshds: measurement, locks, crashes and rollback."""

import json
import os
import signal

import pytest
from v6t.tests.drivers import machines
from v6t.tests.drivers.run_facts import Run

from . import sites, sshserver
from .field import wait_until
from .support import SHORT_RUN, in_lab, run_v6t, start_run, write_testbed

pytestmark = [*in_lab, pytest.mark.slow]
most_sites = pytest.mark.parametrize("site", sites.select_sites(sites.TWO))
one_machine = pytest.mark.parametrize("site", sites.select_sites(sites.ONE))
RUN = ("--mode", "bidirectional", "--measure", "throughput", *SHORT_RUN)


@pytest.fixture
def standing(site, tmp_path):
    with sites.start_site(site, tmp_path / "two.yaml") as running:
        yield running


@most_sites
def test_run_configures_and_restores_all_machines(standing, tmp_path):
    result = run_v6t("run", *standing.flags, *RUN, "-o", tmp_path / "run")
    count = len(standing.site.placed)
    assert (result.err.count("configured as"), result.err.count("rolled back")) == (count, count)
    for words in ("configured as", "rolled back"):
        lines = "\n".join(line for line in result.err.splitlines() if words in line)
        assert all(server.name in lines for server in standing.servers.values()), result.err
    assert not any(server.find_pid() for server in standing.servers.values())
    *_, record = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    assert (record["matched"], record["loss"]) == (1.0, {"forward": 0.0, "reverse": 0.0})
    if standing.site.row:
        row = f"ip6-tunnel {standing.site.row}"
        machines.add_record(row, Run(tmp_path / "run"), standing.hypervisor)


@most_sites
def test_committed_configuration_stays_until_rollback(standing):
    """An unreachable machine does not prevent the rollback of the others."""
    standing.run_for_sides(sites.CABLE, virtual=False)
    before = standing.read_states()
    run_v6t("dut", "commit", *standing.flags)
    first = standing.read_states()
    assert all(first[name] != state for name, state in before.items())
    again = run_v6t("dut", "commit", *standing.flags)
    assert again.err.count("rolling back the changes") == len(standing.site.placed)
    assert all(standing.find_records().values())
    status = run_v6t("dut", "status", *standing.flags, "--json").out
    assert set(json.loads(status)["parts"]) == set(standing.site.placed)
    if len(standing.servers) > 1:
        *others, lost = standing.site.placed
        machine = standing.servers[standing.site.placed[lost].machine]
        machine.shell("kill -STOP $(cat /run/sshd.pid)")  # it accepts connections but never answers
        result = run_v6t("dut", "rollback", *standing.flags, status=4)
        machine.shell("kill -CONT $(cat /run/sshd.pid)")
        now = standing.read_states()
        assert all(now[name] == before[name] for name in others)
        assert now[lost] != before[lost]
        assert f"{machine.name}: no login" in result.err
        assert f"v6t dut rollback {standing.run} --testbed" in result.err
        assert f"sh {standing.site.directory(lost)}/undo.sh" in result.err
        machine.shell(f"sh {standing.site.directory(lost)}/undo.sh")  # exactly so
        wait_until(lambda: standing.read_states() == before, "all is as before", 10)
    run_v6t("dut", "rollback", *standing.flags)
    assert not any(server.find_pid() for server in standing.servers.values())


@one_machine
def test_timers_of_all_machines_undo_killed_run(standing, tmp_path):
    """Kill a run after its first frames, and all sessions, like a network failure."""
    for name in standing.site.placed:
        standing.inside(name)("true")  # its namespace is there
    before, run = standing.read_states(), tmp_path / "run"
    journal = run / "journal.jsonl"

    def has_translated():
        return journal.exists() and b"preflight" in journal.read_bytes()

    with start_run("run", *standing.flags, *RUN, "-o", run) as process:
        wait_until(has_translated, "the preflight trials")
        os.kill(process.pid, signal.SIGKILL)
    assert all(standing.find_records().values())
    for server in standing.servers.values():
        server.drop()
    for name in standing.site.placed:
        shell, place = standing.inside(name), standing.site.directory(name)
        fired = f"cat {place}/guard/fired 2>/dev/null"
        wait_until(lambda shell=shell, fired=fired: shell(fired), f"the timer of {name}", 90)
        assert "undid everything" in shell(fired), shell(f"cat {place}/guard/said")
    # a killed process may take a moment to end
    wait_until(lambda: standing.read_states() == before, "all is as before", 10)
    result = run_v6t("dut", "rollback", *standing.flags)
    assert result.err.count("rolled back after") == len(standing.site.placed)


def test_rollback_does_not_check_session_limit(tmp_path):
    aftr = {"driver": "vpp", "options": {"ssh": {"lab": sshserver.make_unique_name("gone")}}}
    path = write_testbed(tmp_path / "aftr.yaml", "chain", parts={"aftr": aftr})
    flags = ("--plugin", "ipv4aas", "--set", "variant=ds-lite", "--testbed", path)
    refused = run_v6t("run", "--dry-run", *flags, status=2).err
    assert "AFTR keeps 1000 sessions per B4" in refused
    assert "nothing of it remains" in run_v6t("dut", "rollback", *flags).out
