"""Faults at every step of real drivers, over SSH, on a device behind a router.

The device must be restored by v6t, by its own timer, or by the command that v6t prints. ``make test`` runs a few
cells; ``make faults`` runs all of them, including those of programs without a package (``matrix.NAMED``).
"""

import itertools
import os
import random
import re
from contextlib import closing
from pathlib import Path

import pytest
from v6t.drivers.duts.kinds import snabb_lwaftr
from v6t.drivers.duts.registry import list_driver_names, load_driver_type, make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.drivers import matrix

from . import intents, remote_site, sshserver
from .cases import CASE_BY_NAME
from .remote_site import wait_until
from .support import attempt, over_ssh

pytestmark = over_ssh

# Cells to run: a number of random cells, ``all``, or a slice such as ``100:200`` or ``::9``.
CELLS = os.environ.get("V6T_FAULTS", "3")
# Sites used in parallel, because a cell mostly waits for timers.
LANES = int(os.environ.get("V6T_LANES", "1"))
# Faults that prevent every login, so that only the device's timer can restore the device.
CUTS = ("sshd is killed", "the route is cut")
# Silence after which the device rolls back [s]. The default does not expire on a busy machine.
LIMIT_S = dict.fromkeys(CUTS, 3)
DEFAULT_LIMIT_S = 30
DISK, DISK_KIB = "/run/disk", 2048
DNS64 = intents.make_intent("dns64")
# Intent by driver name, with an optional variant after a comma.
DEVICES = {
    "linux-router": intents.ROUTER4,
    "nftables": intents.make_nat44(),
    "iptables": intents.make_nat44(),
    "tayga": intents.SIIT,
    "tayga-nftables": intents.make_nat64(),
    **dict.fromkeys(("unbound", "bind9", "pdns-recursor", "knot-resolver"), DNS64),
    # with filters, and a route that changes during the measurement
    "linux-router, modified": intents.with_requirements(
        intents.ROUTER4, filters=25, route_updates=True
    ),
    "ip6tables-npt": intents.make_intent("nptv6"),
    "nftables66": intents.make_intent("nat66"),
}
# Drivers whose program has no package. They are not part of `make test`.
BUILT = {
    "tundra": CASE_BY_NAME["tundra-siit"].intent,
    "snabb-lwaftr": intents.make_lwaftr(),
    "vpp": intents.make_nat44(),
}
# Drivers that are tested elsewhere, and what they need.
EXCLUDED_DRIVERS = {
    **dict.fromkeys(("jool", "nat46", "ip6-tunnel"), "a kernel with its module"),
    "openbsd-pf": "OpenBSD",
    "chain": "two devices; its parts are tested separately",
    "network-cli": "a device with another command line",
    "command": "commands of the user",
}
# Drivers tested at one site, because their programs share huge pages, a name in /tmp, or a polling core.
ALONE = ("snabb-lwaftr", "vpp")
INJECTIONS = {
    "the session is killed": lambda site: site.device.kill_sessions(),
    "sshd is killed": lambda site: site.device.shell(f"kill $(cat /run/sshd.pid); {sshserver.KILL_SESSIONS}"),
    "the route is cut": lambda site: site.cut_route(),
    "the disk is full": lambda site: site.device.shell(f"head -c {2 * DISK_KIB}k /dev/zero >{DISK}/filler 2>/dev/null; true"),
}  # fmt: skip
FAULTS = (*INJECTIONS, "the disk is read-only")
# What an operator would do.
REPAIRS = {
    "sshd is killed": lambda site: site.device.listen(),
    "the route is cut": lambda site: site.restore_route(),
    "the disk is full": lambda site: site.device.shell(f"rm -f {DISK}/filler"),
    "the disk is read-only": lambda site: site.device.shell(f"mount -o remount,rw {DISK}"),
}
SERVERS = "[t]ayga|[u]nbound|[n]amed|[p]dns|[k]resd|[t]undra|[s]nabb|[v]pp"
STATE = (
    remote_site.STATE
    + "; (iptables-save; ip6tables-save) | grep -v '^#' | sed 's/ .[0-9]*:[0-9]*.$//'"
    + f"; ps -eo args | grep -E '{SERVERS}'; ip -6 rule; ls -d {snabb_lwaftr.SHARED_MEMORY_DIR} 2>/dev/null; true"
)
# Options of drivers that need more disk, or that start their own program.
OPTIONS = {"knot-resolver": {"cache_mib": 1}, "vpp": {"start": True}}
RECORD_FILES = ("guard", "progress", "record.json", "undo.sh", "undone", "undoing", "lock", "beat")


class FaultyTransport(SshTransport):
    """Transport that injects a fault before the numbered command of a phase."""

    def __init__(self, site, fault):
        self.command_s = 4.0 if fault == "the route is cut" else 30.0
        ssh = site.make_login_options(connect_deadline_s=20.0, command_deadline_s=self.command_s)
        super().__init__(SshOptions(**ssh), ["nsenter", "-t", str(site.operator.pid), "-n", "--"])
        limit_s = LIMIT_S.get(fault, DEFAULT_LIMIT_S)
        self.options = {"ssh": ssh, "undo_after_s": limit_s, "state_dir": f"{DISK}/v6t"}
        self.commands_left, self.fault = -2, lambda: None
        self.happened = False

    def arm(self, number, fault):
        self.commands_left, self.fault, self.happened = number, fault, False
        if self.command_s < 20:  # a login without a connection waits until this deadline
            self._options = self._options.model_copy(update={"connect_deadline_s": 2.0})

    def run(self, command, text="", deadline_s=None):
        self.commands_left -= 1  # first, because the fault may run commands
        if self.commands_left == -1:
            self.happened = True
            self.fault()
        return super().run(command, text, min(deadline_s or self.command_s, 2 * self.command_s))


@pytest.fixture(scope="module")
def sites():
    """Provide a list with the current site, which is used for many cells."""
    sites = []
    yield sites
    for site in sites:
        site.close()


@pytest.fixture
def site(sites, tmp_path_factory):
    """Provide the current site, or a new one if the device may not be restored after a failed cell."""
    if not sites:
        sites.append(_build_site(tmp_path_factory.mktemp("site")))
    (site,) = sites
    site.clean = False
    yield site
    if not site.clean:
        sites.remove(site)
        site.close()


def _build_site(directory):
    site = remote_site.RemoteSite("matrix", directory)
    site.device.shell(f"mkdir {DISK} && mount -t tmpfs -o size={DISK_KIB}k,mode=700 disk {DISK}")
    # iptables leaves empty chains in its tables after its first use
    for command in (
        "iptables -t nat {} POSTROUTING", "iptables -t filter {} FORWARD", "iptables -t mangle {} FORWARD",
        "ip6tables -t mangle {} POSTROUTING", "ip6tables -t mangle {} PREROUTING",
    ):  # fmt: skip
        site.device.shell(" && ".join(f"{command.format(act)} -j ACCEPT" for act in ("-A", "-D")))
    site.before = read_state(site)
    return site


def read_state(site):
    # sorted, because a restored entry may move to the end of its list
    lines = site.device.shell(STATE).splitlines()
    return sorted(line for line in lines if line not in RECORD_FILES)


def inject(site, fault, session):
    if fault in INJECTIONS:
        INJECTIONS[fault](site)
    else:
        line = f"mount -o remount,ro {DISK} 2>&1"
        loop = f"for i in $(seq 20); do error=$({line}) && exit 0; sleep 0.1; done; echo $error"
        if "busy" in site.device.shell(loop):
            session.rollback()
            site.clean = read_state(site) == site.before
            pytest.skip("the device writes a log on this disk")


def is_settled(site):
    """Check without a process whether the device's timer is absent or has fired."""
    timer = Path(f"/proc/{site.device.pid}/root{DISK}/v6t/guard")
    return not timer.exists() or (timer / "fired").exists()


def make_matrix_driver(name, options):
    """Make the driver of one of :data:`DEVICES` or :data:`BUILT`."""
    kind = name.partition(",")[0]
    options = {**options, **OPTIONS.get(kind, {})}
    if program := matrix.find_program(kind) if kind in BUILT else "":
        options["program"] = program
    return make_driver(kind, options)


def list_cells(devices):
    """Yield driver, fault, phase, and the number of the command before which the fault happens."""
    for name, intent in devices.items():
        driver = make_matrix_driver(name, {})
        plan = driver.plan(intent, driver.make_example_facts(intent))
        commands = {
            "commit": len(plan.steps) + 3, "verify": 1, "flush": 2 * len(plan.flush), "rollback": 5,
            "update_routes": 2 if plan.route_update else 0,
        }  # fmt: skip
        for phase, fault in itertools.product(commands, FAULTS):
            yield from ((name, fault, phase, step) for step in range(commands[phase]))


def find_missing(name):
    """Return what this machine lacks for a device, or an empty string."""
    return matrix.find_missing("embedded", matrix.Row(name.partition(",")[0], "", ""))


def select_cells():
    """Return the selected cells, assigned to sites; random cells use devices that this machine has."""
    if CELLS.isdecimal():
        available = {name: intent for name, intent in DEVICES.items() if not find_missing(name)}
        cells = random.Random(16).sample([*list_cells(available)], int(CELLS))
    else:
        bounds = [int(n) if n else None for n in CELLS.replace("all", "::").split(":")]
        cells = [*list_cells(DEVICES | BUILT)][slice(*bounds)]
    return [
        pytest.param(*cell, marks=pytest.mark.xdist_group(f"fault-matrix-{site}"))
        for number, cell in enumerate(cells)
        for site in [0 if cell[0] in ALONE else number % LANES]
    ]


def test_every_driver_is_tested_or_excluded():
    kinds = {name for name in list_driver_names() if load_driver_type(name).configures_device}
    tested = {name.partition(",")[0] for name in DEVICES | BUILT}
    assert tested | set(EXCLUDED_DRIVERS) == kinds
    assert not tested & set(EXCLUDED_DRIVERS)
    page = (Path(__file__).parents[3] / "docs/development.md").read_text(encoding="utf-8")
    names = page.partition("`make faults` leaves out ")[2].partition("`make test`")[0]
    assert set(re.findall(r"`([\w-]+)`", names)) == set(EXCLUDED_DRIVERS)


@pytest.mark.parametrize(("name", "fault", "phase", "step"), select_cells())
def test_device_is_restored_after_fault(name, fault, phase, step, site, monkeypatch):
    intent = (DEVICES | BUILT)[name]
    if missing := find_missing(name):
        pytest.skip(missing)
    monkeypatch.setattr("v6t.drivers.duts.session.session.FLUSH_TRIES", 10)
    monkeypatch.setattr("v6t.drivers.duts.session.transaction.TIMER_MARGIN_S", 4.0)
    before = site.before
    transport = FaultyTransport(site, fault)
    with closing(
        Session(make_matrix_driver(name, transport.options), transport, intent)
    ) as session:
        session.open()
        if phase != "commit":
            session.commit()
            if phase != "rollback":
                session.verify()
        transport.arm(step, lambda: inject(site, fault, session))
        error = attempt(getattr(session, phase))
        if not transport.happened:
            session.rollback()
            site.clean = read_state(site) == before
            pytest.skip(f"{phase} has no command {step}")
    if fault in CUTS and phase != "rollback":
        # without a login, the device's timer restores it, unless nothing was changed yet
        wait_until(lambda: is_settled(site), "the device's own timer", 60)
        assert read_state(site) == before
    if fault in REPAIRS:
        REPAIRS[fault](site)
    if read_state(site) != before:
        error = error or "nothing failed, so the device stays configured"
        if fault in CUTS:
            wait_until(lambda: is_settled(site), "the end of the device's own timer", 60)
        transport = FaultyTransport(site, fault)
        with closing(
            Session(make_matrix_driver(name, transport.options), transport, intent)
        ) as last:
            # after the repair, the router may briefly report that there is no route
            wait_until(lambda: attempt(last.open) == "", "a login", 30)
            assert attempt(last.rollback) == "", error
    assert sorted(set(read_state(site)) ^ set(before)) == [], error
    site.device.shell(f"rm -rf {DISK}/v6t")
    site.clean = True
