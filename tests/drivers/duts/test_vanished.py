"""One of v6t's objects vanishes before the rollback, which ends with the device as it was."""

from __future__ import annotations

import subprocess

import pytest
from v6t.drivers.duts.os import linux
from v6t.drivers.duts.plan import expect_text, expect_words
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.undo_store import PROGRESS, SCRIPT, UndoRecord, build_undo_script
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import LinkIntent

from .support import in_lab

pytestmark = in_lab
# the kernel purges neighbors with an IPv4 address, not with an IPv6 one
HOSTS = ("192.0.2.2", "192.0.2.3", "2001:db8::2", "2001:db8::3")
SIDE = LinkIntent(
    ["192.0.2.1/24", "2001:db8::1/64"],
    dict.fromkeys(HOSTS, "02:00:00:00:00:01"),
    {"198.51.100.0/24": "192.0.2.2"},
)
TUN = make_object_step(
    "ip tuntap add dev tun9 mode tun", "ip link del tun9", "a TUN interface",
    read=linux.make_link_command("tun9"), expected=expect_words("tun9"),
)  # fmt: skip
TABLE = make_object_step(
    "nft add table ip v6t", "nft delete table ip v6t", "a table",
    read="nft list tables | grep -x 'table ip v6t' || true", expected=expect_text("table ip v6t"),
)  # fmt: skip
SIDE_STEPS = linux.make_side_steps(SIDE, "left", "static")


@pytest.fixture
def device():
    """A shell in a network namespace with a link `left`."""
    holder = subprocess.Popen(["unshare", "-n", "sleep", "60"])

    def run(line, text="", status=0):
        enter = ["nsenter", "-t", str(holder.pid), "-n", "sh", "-c", line]
        done = subprocess.run(enter, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr + done.stdout
        return done.stdout

    own = subprocess.run(["readlink", "/proc/self/ns/net"], capture_output=True, check=True).stdout
    while subprocess.run(["readlink", f"/proc/{holder.pid}/ns/net"],
                         capture_output=True, check=True).stdout == own:  # fmt: skip
        pass
    run("ip link set lo up; ip link add left type veth peer name cable; ip link set left up")
    yield run
    holder.kill()
    holder.wait()


STATE = (
    "ip -o addr | grep -v fe80; ip route; ip neigh show nud permanent; ip -o link | cut -d' ' -f2-5; "
    "sysctl net.ipv4.conf.all.rp_filter; nft list ruleset"
)
SYSCTL = linux.make_sysctls_step(
    {"net.ipv4.conf.left.rp_filter": 2, "net.ipv4.conf.all.rp_filter": 2}, "x"
)


@pytest.mark.parametrize(
    ("steps", "loss"),
    [
        (SIDE_STEPS, "ip addr del 192.0.2.1/24 dev left"),
        (SIDE_STEPS, "ip neigh del 192.0.2.3 dev left"),
        (SIDE_STEPS, "ip neigh del 2001:db8::2 dev left"),
        (SIDE_STEPS, "ip route del 198.51.100.0/24"),
        (SIDE_STEPS, "ip link set left down; ip link set left up"),
        ([linux.make_link_up_step("cable")], "ip link set cable down"),
        ([linux.make_mtu_step("left", 1400)], "ip link set left mtu 1300"),
        ([SYSCTL], "sysctl -q -w net.ipv4.conf.all.rp_filter=1"),
        ([TUN, linux.make_mtu_step("tun9", 1400), linux.make_link_up_step("tun9")], "ip link del tun9"),
        ([TABLE], "nft delete table ip v6t"),
    ],
)  # fmt: skip
def test_rollback_after_an_object_vanished_leaves_the_device_as_before(
    device, tmp_path, steps, loss
):
    before = device(STATE)
    entries = [make_undo_entry(n, s, device(s.before)) for n, s in enumerate(steps, 1)]
    record = UndoRecord("me", "boot", "linux", "x", "now", str(tmp_path), tuple(entries))
    (tmp_path / SCRIPT).write_text(build_undo_script(record))
    for number, step in enumerate(steps, 1):
        device(step.command, step.text)
        with (tmp_path / PROGRESS).open("a") as progress:
            progress.write(f"{number}\n")
    device(loss)
    assert "left" not in device(f"sh {tmp_path / SCRIPT}").split()
    assert device(STATE) == before
    assert not any(entry.is_changed(device(entry.state_command)) for entry in entries)
