"""A device with a management interface behind a router, and the operator's host.

    operator 10.9.9.2 -- router -- 10.8.8.2 mgmt, device, left and right -- unconnected

All three are network namespaces. The device also has process and mount namespaces and an sshd. v6t runs on the
operator's host; tests run commands on the device without network (its console).
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from v6t.drivers.duts.lab import namespaces
from v6t.tests.core.support import start_v6t

from . import intents, sshserver
from .support import run_shell, run_v6t, write_testbed

DEVICE, LINK_LOCAL = "10.8.8.2", "fe80::8%to-device"
# Shell command that prints the state of a Linux device that v6t may change.
STATE = (
    "ip -o link | sed 's/^[0-9]*: //; s/ qdisc .*//'; "
    "ip -o addr | sed 's/ tentative//; s/^[0-9]*: //; s/valid_lft.*//'; "
    "ip route; ip -6 route | grep -v ^unreachable; ip neigh show nud permanent; nft list ruleset; "
    "cd /proc/sys/net; grep -rs '' ipv4/conf ipv4/neigh ipv6/conf ipv6/neigh | grep -v -e _nonce "
    "-e stable_secret -e base_reachable; cd /; ls /run/v6t 2>/dev/null; true"
)


class Namespace:
    """A network namespace that ends with this process."""

    def __init__(self) -> None:
        self._process, self.pid = namespaces.start_namespaces(persistent=False)

    def run(self, command: str) -> str:
        sh = ("nsenter", "-t", str(self.pid), "-n", "--", "sh", "-e")
        return run_shell(command, sh=sh).stdout

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class RemoteSite:
    before: list[str]  # state of the device at the start of a test

    def __init__(self, name: str, directory: Path) -> None:
        self.directory = directory
        self.device = sshserver.Server(name)
        self.router, self.operator = Namespace(), Namespace()
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        device = self.device.pid
        self.operator.run(
            f"ip link set lo up; ip link add uplink type veth peer name ops netns {self.router.pid}; "
            "ip addr add 10.9.9.2/24 dev uplink; ip link set uplink up; "
            "ip link add to-device type veth peer name near netns "
            f"{device}; ip addr add fe80::9/64 dev to-device nodad; ip link set to-device up"
        )
        self.operator.run("ip route add default via 10.9.9.1")
        self.router.run(f"ip link add dev0 type veth peer name mgmt netns {device}; "
                        "ip addr add 10.9.9.1/24 dev ops; ip addr add 10.8.8.1/24 dev dev0; "
                        "ip link set ops up; ip link set dev0 up; sysctl -q -w net.ipv4.ip_forward=1")  # fmt: skip
        self.device.shell(
            "ip addr add 10.8.8.2/24 dev mgmt; ip link set mgmt up; "
            "ip addr add fe80::8/64 dev near nodad; ip link set near up; "
            "ip route add default via 10.8.8.1; "
            "printf 'nameserver 10.7.7.53\\n' >/run/resolv; mount --bind /run/resolv /etc/resolv.conf"
        )
        self.device.connect_sides(intents.LINKS)
        self.device.configure_sshd("s/^ListenAddress .*/AddressFamily any/; s/^Port .*/Port 2222/")
        kind, key = (self.device.directory / "hostkey.pub").read_text().split()[:2]
        with (self.device.directory / "known_hosts").open("a") as known_hosts:
            known_hosts.writelines(f"[{name}]:2222 {kind} {key}\n" for name in (DEVICE, LINK_LOCAL))
        state = self.read_state()
        for _ in range(100):
            time.sleep(0.1)
            previous, state = state, self.read_state()
            if previous == state and "NO-CARRIER" not in str(state):
                return
        raise AssertionError("the links do not come up")

    def make_login_options(self, **changes: Any) -> dict[str, Any]:
        return self.device.make_login_options(**{"host": DEVICE, "port": 2222, **changes})

    def write_testbed(
        self, driver="linux-router", host=DEVICE, tester=None, **options: Any
    ) -> Path:
        """Write a testbed file for the operator; return its path."""
        ssh = self.make_login_options(host=host, **options.pop("ssh", {}))
        return write_testbed(self.directory / "testbed.yaml", driver, tester, ssh=ssh, **options)

    def start(self, *words: object) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start_v6t(*words, network=self.operator.pid, stdin=subprocess.DEVNULL, **pipes)

    def v6t(self, *words: object, status: int = 0) -> str:
        """Run ``v6t WORDS`` on the operator's host; return its output and ``[error code]``."""
        result = run_v6t(*words, network=self.operator.pid, status=status)
        return result.out + result.err + f"[{result.code}]" * bool(result.code)

    def cut_route(self) -> None:
        """Cut the route silently: neither packets nor errors nor connection resets pass."""
        self.router.run("ip link set ops down; ip link set dev0 up")

    def restore_route(self) -> None:
        """Restore the route and wait until connections succeed, because logins do not retry."""
        self.router.run("ip link set ops up")
        connect = f"timeout 1 bash -c '</dev/tcp/{DEVICE}/2222'"
        self.operator.run(f"for try in $(seq 50); do {connect} && exit; done; false")

    def read_state(self) -> list[str]:
        """Return the device's configuration and v6t's files on it, read at its console."""
        return self.device.shell(STATE).splitlines()

    def close(self) -> None:
        self.router.close()
        self.operator.close()
        self.device.stop()


def wait_until(condition: Callable[[], bool], description: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds; the description is part of the error message.

    Slow conditions, which may start processes, are polled less often.
    """
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < end, f"not within {seconds:g} s: {description}"
        time.sleep(max(0.1, 4 * (now - began)))
