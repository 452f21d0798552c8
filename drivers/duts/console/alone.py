"""A login for a few lines, where no v6t has the device: ``undo.sh`` by hand, or by the timer."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from typing import Any

from v6t.base.errors import V6tError
from v6t.drivers.duts.console.dialogue import Dialogue
from v6t.drivers.duts.console.manners import Manners
from v6t.drivers.duts.standing.ssh import standing
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions


def prelude(ssh: SshOptions, manners: Manners) -> str:
    """Shell lines that define ``box`` for a device; no password is in them."""
    at = {
        "ssh": ssh.model_dump(mode="json", exclude_defaults=True),
        "cli": manners.model_dump(mode="json", exclude_defaults=True),
    }
    words = [sys.executable, "-m", "v6t.drivers.duts.console.box", "--at", json.dumps(at)]
    # from a directory in which nobody puts modules
    return f'box() (cd / && exec {shlex.join(words)} "$@")'


def typed(at: str, lines: list[str]) -> tuple[int, str, str]:
    """Log in, type, and hang up.

    Args:
        at: what :func:`prelude` says of the device.
        lines: for it.

    Returns:
        Status, what it said, and what was wrong; see :class:`v6t.drivers.duts.console.dialogue.Reply`.
    """
    try:
        ssh, manners = _device(at)
        way = standing(ssh)
        if way is None:
            return 3, "", f"the lab device {ssh.lab} does not stand"
        way.open()
        try:
            dialogue = Dialogue(way.name, way.terminal(), manners)
            try:
                dialogue.begin()
                reply = dialogue.reply(lines)
            finally:
                dialogue.close()
        finally:
            way.close()
    except V6tError as exc:
        return 3, "", exc.message
    return reply.status, reply.out, reply.err


def ends(at: str) -> str:
    """From which address a device is reached, and at which, one line each, as far as that is known."""
    ssh, _ = _device(at)
    if ssh.lab:
        return ""
    client = SshClient(ssh)
    try:
        said = subprocess.run(
            [*client.words("-G"), "--", client.host], capture_output=True, text=True, check=False
        )
    finally:
        client.remove()
    split = (line.partition(" ") for line in said.stdout.splitlines())
    told = {name: value for name, _, value in split}
    host, direct = told.get("hostname", ""), not {"proxyjump", "proxycommand"} & told.keys()
    lines = []
    try:
        known = socket.getaddrinfo(host, int(told.get("port", "22")), type=socket.SOCK_DGRAM)
    except (OSError, ValueError):
        return ""  # a name that only a host on the way knows
    for family, kind, protocol, _, address in known[:1]:
        lines.append(f"server {str(address[0]).partition('%')[0]}")
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(address)  # nothing is sent
            except OSError:
                continue
            if direct:
                lines.append(f"client {str(probe.getsockname()[0]).partition('%')[0]}")
    return "".join(f"{line}\n" for line in lines)


def _device(at: str) -> tuple[SshOptions, Manners]:
    told: dict[str, Any] = json.loads(at)
    return SshOptions.model_validate(told["ssh"]), Manners.model_validate(told["cli"])
