"""A device that is emptied by starting it anew: logged in to again, configured again."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.tests.expect import expect_error

from .support import DUMMY, over_ssh

pytestmark = over_ssh

REBOOT = """\
#!/bin/sh
# as a reboot looks from outside: no answer for a while, nothing in /run, another boot identifier
sleep 0.2
kill $(cat /run/sshd.pid)
for p in $(ps -eo pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); do kill -9 $p; done
ip link del v6tdummy
rm -rf /run/v6t
sleep 0.5
cat /proc/sys/kernel/random/uuid >/run/boot
/usr/sbin/sshd -f /run/v6t-lab/sshd_config -E /run/v6t-lab/log
"""


@pytest.fixture(scope="module", autouse=True)
def _script(server):
    server.shell("cat >/run/reboot", REBOOT)


@pytest.fixture
def device(make_session, monkeypatch):
    monkeypatch.setattr("v6t.drivers.duts.session.session.REBOOT_PAUSE_S", 0.1)

    def make(command, deadline_s=60.0):
        flush = {"command": command, "reboots": True, "deadline_s": deadline_s}
        session = make_session({"steps": [DUMMY], "flush": [flush]}, connect_deadline_s=2.0)
        session.open()
        return session

    return make


def test_a_flush_by_reboot_configures_again(server, device):
    session = device("setsid sh /run/reboot >/dev/null 2>&1 &")
    session.commit()
    first = server.shell("cat /run/boot")
    for _ in range(2):
        session.flush()
        assert "v6tdummy" in server.shell("ip -o link show dev v6tdummy")
        assert server.shell("cat /run/boot") != first
    session.verify()
    assert session.rollback() == ["an interface: undone"]
    assert "v6tdummy" not in server.shell("ip -o link")


def test_a_device_that_does_not_reboot_is_told(server, device):
    session = device("true", deadline_s=0.5)
    session.commit()
    with expect_error("not-rebooted", mentions="0.5") as info:
        session.flush()
    assert "sh /run/v6t/undo.sh" in info.value.hint
    session.open()
    session.rollback()
    assert "v6tdummy" not in server.shell("ip -o link")


def test_a_device_that_does_not_come_back_is_told(server, device):
    session = device("kill $(cat /run/sshd.pid); sleep 0.3; kill -9 $PPID", deadline_s=1.0)
    session.commit()
    with expect_error("not-rebooted"):
        session.flush()
    server.listen()
    session.open()
    session.rollback()
    assert "v6tdummy" not in server.shell("ip -o link")


def test_a_flush_is_seen_or_reboots():
    with expect_error("missing-setting", path=["flush", 0]):
        make_driver("command", {"flush": [{"command": "true"}]})
