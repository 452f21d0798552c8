"""Real implementations as devices of the lab."""

import subprocess
import time
from pathlib import Path
from typing import Any

from v6t.base.errors import DutError, EnvironmentLacking, UsageError
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.lab import namespaces
from v6t.drivers.duts.lab.ssh import LabSshServer
from v6t.drivers.duts.plan import Intent
from v6t.drivers.duts.session.session import Session, make_device_session
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.setup import LabDevice
from v6t.drivers.transport.contract import Transport
from v6t.drivers.transport.process import NamespaceTransport

# Time for the interfaces of an earlier lab to disappear; a busy kernel removes namespaces late.
FREE_INTERFACES_LIMIT_S = 30.0


class LabDut(LabDevice):
    """A device under test in namespaces of the lab, reached directly or, with ``ssh.lab``, over SSH."""

    def __init__(
        self, driver: Driver, intent: Intent, record_dir: Path | None = None, part: str = ""
    ) -> None:
        options = driver.options
        if options.ssh is not None and not options.ssh.lab:
            problem = "a device that is reached over SSH cannot be in the lab"
            hint = "use --tester trex with this testbed, or ssh.lab instead of ssh.host"
            raise UsageError(problem, hint, code="unsupported-by-device")
        if options.machine_wide_options:
            names = ", ".join(options.machine_wide_options)
            problem = f"the lab's device shares this machine's cores: {names}"
            hint = f"leave dut.options.{options.machine_wide_options[0]} out, or use a device elsewhere"
            raise UsageError(problem, hint, code="unsupported-by-tester")
        sides = (RIGHT, LEFT) if intent.links.swapped else (LEFT, RIGHT)
        if (options.left, options.right) != sides:
            problem = "the interfaces of the lab's device are named left and right"
            raise UsageError(problem, "leave dut.options.left and right out", code="option-invalid")
        self.driver = driver
        self.intent = intent
        self._record_dir = record_dir
        self._part = part
        self._host: subprocess.Popen[str] | None = None
        self._pid = 0
        self._server: LabSshServer | None = None
        self._session: Session | None = None

    @property
    def session(self) -> Session | None:
        return self._session

    def get_namespace_pid(self) -> int:
        return self.create_namespaces()

    def create_namespaces(self) -> int:
        """Create the namespaces of the device and return the id of a process in them."""
        login = self.driver.options.ssh
        try:
            if login is None:
                self._host, self._pid = namespaces.start_namespaces(persistent=False)
            else:
                self._server = LabSshServer(login.lab)
                self._server.acquire()
                self._pid = self._server.start()
                if login.netns:
                    self._pid = self._server.add_namespace(login.netns)
        except OSError as exc:
            problem = f"the lab's device could not be made: {exc}"
            raise EnvironmentLacking(problem, code="lab-failed") from exc
        self._await_free_interfaces()
        return self._pid

    def describe_parts(self) -> list[str]:
        if (login := self.driver.options.ssh) is not None:
            LabSshServer(login.lab)  # raises an error if no sshd can be started
        process, pid = namespaces.start_namespaces(persistent=False)
        try:
            transport = NamespaceTransport(pid, f"lab device ({self.driver.name})")
            facts = make_device_session(self.driver, transport, self.intent).survey()
        finally:
            process.kill()
            process.communicate()
        return [f"{self.driver.name} {facts.version}".rstrip()]

    def start_in_namespace(self, pid: int) -> None:
        session = make_device_session(
            self.driver, self._make_transport(), self.intent, self._record_dir, part=self._part
        )
        session.open()
        self._session = session
        session.commit()
        session.verify()

    def report(self) -> dict[str, Any]:
        return {} if self.session is None else self.session.read_telemetry()

    def describe(self) -> dict[str, Any]:
        return {"kind": self.driver.name} if self.session is None else self.session.describe()

    def close(self) -> None:
        """Roll the configuration back, which also tests the rollback, and remove the namespaces."""
        session, self._session = self._session, None
        try:
            if session is not None:
                try:
                    session.rollback()
                finally:
                    session.close()
        finally:
            if self._server is not None:
                self._server.release()
                self._server = None
            if self._host is not None:
                self._host.kill()
                self._host.communicate()
                self._host = None

    def _make_transport(self) -> Transport:
        """Return a transport that uses SSH if there is an sshd, or else enters the namespaces."""
        if self._server is None:
            return NamespaceTransport(self._pid, f"lab device ({self.driver.name})")
        return self._server.make_transport(self.driver.options.ssh.netns)

    def _await_free_interfaces(self) -> None:
        transport = NamespaceTransport(self._pid)
        end = time.monotonic() + FREE_INTERFACES_LIMIT_S
        while time.monotonic() < end:
            if transport.run(f"ip link show {LEFT} || ip link show {RIGHT}").status:
                return
            time.sleep(0.1)
        problem = "the lab's device is still in use"
        raise DutError(problem, "wait for the end of the other v6t", code="device-busy")

    def prepare(self) -> None:
        """Set the MAC addresses of the device's interfaces, and bring them up with IPv6 enabled."""
        links, options = self.intent.links, self.driver.options
        ipv6 = "net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0"
        lines = [f"sysctl -q -w {ipv6}"]
        for name, link in ((options.left, links.left), (options.right, links.right)):
            lines += [
                f"sysctl -q -w net.ipv6.conf.{name}.accept_dad=0 "
                f"net.ipv6.conf.{name}.disable_ipv6=0",
                f"ip link set dev {name} down",
                f"ip link set dev {name} address {link.dut_mac} arp on",
                f"ip link set dev {name} up",
            ]
        done = NamespaceTransport(self._pid).run(" && ".join(lines))
        if done.status:
            problem = f"the lab's device interfaces cannot be set: {done.cause}"
            raise EnvironmentLacking(problem, code="lab-failed")
