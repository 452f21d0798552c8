"""Virtual machine that v6t uses as a lab device: its sshd answers instead of the lab's.

Its namespaces have the device's name. Cables in them are connected to the machine's interface of the same
side, whenever v6t adds one.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
from collections.abc import Mapping

from v6t.drivers.duts.lab import ssh
from v6t.drivers.transport.process import NamespaceTransport, enter
from v6t.tests.jool.vm import MACS, LinuxMachine, SharedLinuxMachine
from v6t.tests.machine import image
from v6t.tests.machine.image import Recipe

from . import sshserver

_LOGIN = f"""\
sysctl -q -w net.ipv4.conf.all.route_localnet=1
nft -f - <<'END'
table ip v6t-login {{
  chain there {{ type nat hook output priority -100; ip daddr 127.0.0.1 tcp dport 22 dnat to {LinuxMachine.address}; }}
  chain back {{ type nat hook postrouting priority 100; oifname tap-mgmt masquerade; }}
}}
END
"""
# A bridge does not work: v6t sets the machine's MAC address on the cable's end.
_CABLES = """\
led() { tc qdisc add dev $1 clsact &&
  tc filter add dev $1 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev $2; }
while sleep 0.2; do for side in left right; do
  [ -e /sys/class/net/$side ] || continue
  tc qdisc show dev $side | grep -q clsact && continue
  tc qdisc del dev tap-$side clsact 2>/dev/null
  led tap-$side $side && led $side tap-$side
done; done
"""
# Kills all sessions except the one that runs this command.
_OTHERS = """\
p=$$; while read n <$p/comm && [ $n != sshd ]; do p=$(cut -d' ' -f4 $p/stat); done
for each in $(ps -o pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); do
  [ $each = $p ] || kill -9 $each 2>/dev/null
done; true
"""


def find_missing() -> str:
    """Return what this host lacks for virtual machines, or an empty string."""
    wanted = image.find_missing_packages()
    wanted += [] if shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin:/bin") else ["iproute2"]
    return f"needs {', '.join(wanted)}" if wanted else sshserver.find_missing() or ""


@functools.cache
def _boot_template(recipe: Recipe) -> LinuxMachine:
    """Return a booted machine that serves as the template of all others."""
    shared = SharedLinuxMachine(recipe.get_image())
    atexit.register(shared.stop)
    return shared.start()


class Server(ssh.LabSshServer):
    """A machine of a recipe; see :class:`.sshserver.Server`."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        super().__init__(sshserver.make_unique_name(name))
        self._recipe = recipe
        self.start()
        self.inside = ssh.LabTransport(self._pid, self.make_options())
        self.inside.open()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def hypervisor(self) -> str:
        return self._machine.hypervisor

    def has(self, macs: Mapping[str, str]) -> None:
        """Set the MAC addresses of the interfaces, by side."""
        for side, mac in macs.items():
            self.shell(f"ip link set dev {side} address {mac}")

    def shell(self, command: str) -> str:
        """Run a command in a separate session."""
        done = self.inside.run(command)
        assert done.status == 0, done
        return done.out

    def drop(self) -> None:
        """Kill all sessions except this one."""
        self.shell(f"cd /proc; {_OTHERS}")

    def stop(self) -> None:
        """Stop the machine; a second call does nothing."""
        self.inside.close()
        super().stop()
        self._machine.stop()

    def _create_keys(self) -> None:
        """Do nothing: the machine already has keys."""

    def _start_sshd(self) -> None:
        self._machine = LinuxMachine(
            self._recipe.get_image(), self._pid, MACS, template=_boot_template(self._recipe)
        )
        try:
            self._machine.start()
            for name in ("id", "known_hosts"):
                shutil.copy(self._machine.directory / name, self.directory)
            done = NamespaceTransport(self._pid).run(_LOGIN)
            assert done.status == 0, done
        except BaseException:
            self._machine.stop()
            raise
        words = [*enter(self._pid), "sh", "-c", _CABLES]
        null = subprocess.DEVNULL
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)
