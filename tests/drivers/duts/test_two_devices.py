"""CE and PE of ipv4aas over SSH: measurement, rollback, and rollback timers after a crash."""

import json
import os
import signal

import pytest
from v6t.tests.drivers import machines
from v6t.tests.drivers.run_facts import Run

from . import sites, sshserver
from .remote_site import wait_until
from .support import SHORT_RUN, in_lab, run_v6t, start_run, write_testbed

pytestmark = [*in_lab, pytest.mark.slow]
most_sites = pytest.mark.parametrize("site", sites.select_sites("464xlat"))
one_machine = pytest.mark.parametrize("site", sites.select_sites("map-t, CE on one machine"))
RUN = ("--mode", "bidirectional", "--measure", "throughput", *SHORT_RUN)


@pytest.fixture
def running_site(site, tmp_path):
    with sites.start_site(site, tmp_path / "two.yaml") as started:
        yield started


@most_sites
def test_run_configures_and_restores_all_machines(running_site, tmp_path):
    result = run_v6t("run", *running_site.flags, *RUN, "-o", tmp_path / "run")
    count = len(running_site.site.machine_parts)
    assert (result.err.count("configured as"), result.err.count("rolled back")) == (count, count)
    for words in ("configured as", "rolled back"):
        lines = "\n".join(line for line in result.err.splitlines() if words in line)
        assert all(server.name in lines for server in running_site.servers.values()), result.err
    assert not any(server.find_pid() for server in running_site.servers.values())
    *_, record = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    assert (record["matched"], record["loss"]) == (1.0, {"forward": 0.0, "reverse": 0.0})
    if running_site.site.row:
        row = f"ip6-tunnel {running_site.site.row}"
        machines.add_record(row, Run(tmp_path / "run"), running_site.hypervisor)


@most_sites
def test_committed_configuration_stays_until_rollback(running_site):
    """An unreachable machine does not prevent the rollback of the others."""
    running_site.run_for_sides(sshserver.CABLE, virtual=False)
    before = running_site.read_states()
    run_v6t("dut", "commit", *running_site.flags)
    first = running_site.read_states()
    assert all(first[name] != state for name, state in before.items())
    second = run_v6t("dut", "commit", *running_site.flags)
    assert second.err.count("rolling back the changes") == len(running_site.site.machine_parts)
    assert all(running_site.find_records().values())
    status = run_v6t("dut", "status", *running_site.flags, "--json").out
    assert set(json.loads(status)["parts"]) == set(running_site.site.machine_parts)
    if len(running_site.servers) > 1:
        *others, lost = running_site.site.machine_parts
        machine = running_site.servers[running_site.site.machine_parts[lost].machine]
        machine.shell("kill -STOP $(cat /run/sshd.pid)")  # connections are not answered
        result = run_v6t("dut", "rollback", *running_site.flags, status=4)
        machine.shell("kill -CONT $(cat /run/sshd.pid)")
        now = running_site.read_states()
        assert all(now[name] == before[name] for name in others)
        assert now[lost] != before[lost]
        assert f"{machine.name}: no login" in result.err
        assert f"v6t dut rollback {running_site.run} --testbed" in result.err
        undo_command = f"sh {running_site.site.get_state_directory(lost)}/undo.sh"
        assert undo_command in result.err
        machine.shell(undo_command)
        wait_until(lambda: running_site.read_states() == before, "all is as before", 10)
    run_v6t("dut", "rollback", *running_site.flags)
    assert not any(server.find_pid() for server in running_site.servers.values())


@one_machine
def test_timers_of_all_machines_undo_killed_run(running_site, tmp_path):
    """Kill the run after the first frames, and then all sessions, like a network failure."""
    for name in running_site.site.machine_parts:
        running_site.make_console(name)("true")  # the namespace exists before the state is read
    before, run = running_site.read_states(), tmp_path / "run"
    journal = run / "journal.jsonl"

    def has_translated():
        return journal.exists() and b"preflight" in journal.read_bytes()

    with start_run("run", *running_site.flags, *RUN, "-o", run) as process:
        wait_until(has_translated, "the preflight trials")
        os.kill(process.pid, signal.SIGKILL)
    assert all(running_site.find_records().values())
    for server in running_site.servers.values():
        server.kill_sessions()
    for name in running_site.site.machine_parts:
        shell, place = running_site.make_console(name), running_site.site.get_state_directory(name)
        fired = f"cat {place}/guard/fired 2>/dev/null"
        wait_until(lambda shell=shell, fired=fired: shell(fired), f"the timer of {name}", 90)
        assert "undid everything" in shell(fired), shell(f"cat {place}/guard/said")
    # killed processes do not end at once
    wait_until(lambda: running_site.read_states() == before, "all is as before", 10)
    result = run_v6t("dut", "rollback", *running_site.flags)
    assert result.err.count("rolled back after") == len(running_site.site.machine_parts)


def test_rollback_does_not_check_session_limit(tmp_path):
    aftr = {"driver": "vpp", "options": {"ssh": {"lab": sshserver.make_unique_name("gone")}}}
    path = write_testbed(tmp_path / "aftr.yaml", "chain", parts={"aftr": aftr})
    flags = ("--plugin", "ipv4aas", "--set", "variant=ds-lite", "--testbed", path)
    refused = run_v6t("run", "--dry-run", *flags, status=2).err
    assert "AFTR keeps 1000 sessions per B4" in refused
    assert "nothing of it remains" in run_v6t("dut", "rollback", *flags).out
