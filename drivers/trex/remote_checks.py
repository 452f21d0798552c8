"""What stands between a user and a TRex elsewhere, or its ports: for ``v6t doctor``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from v6t.drivers.tester_kind import Finding
from v6t.drivers.trex.channel import ClientWorker
from v6t.drivers.trex.machine import examine_interfaces, examine_machine
from v6t.drivers.trex.options import TrexOptions
from v6t.profiles.errors import TesterError, V6tError

GRACE_S = 5.0


def examine_remote(options: TrexOptions) -> Iterator[Finding]:
    """Login, installation and client on the host that ``ssh`` names."""
    if shutil.which("ssh") is None:
        yield "ssh", "missing", "no OpenSSH client here: apt-get install openssh-client"
        return
    if not options.trex_dir:
        yield "TRex", "missing", "ssh needs trex_dir: where TRex is on that host"
        return
    if options.ssh is None:
        return
    host = options.ssh.text
    try:
        remote = options.remote
        if remote is None:
            return
        words = remote.command(["test", "-e", f"{options.trex_dir}/t-rex-64"])
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            timeout=options.ssh.connect_deadline_s + GRACE_S,
        )  # fmt: skip
    except (V6tError, OSError, subprocess.TimeoutExpired) as exc:
        yield "ssh", "missing", f"{host}: {exc}"
        return
    if done.returncode == 255:
        said = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        yield "ssh", "missing", f"{host}: {said}; `ssh {host} true` must work unasked"
        return
    yield "ssh", "ok", f"logged in as {host}"
    if done.returncode:
        yield "TRex", "missing", f"there is no {options.trex_dir}/t-rex-64 on {host}"
        return
    yield "TRex", "ok", f"{host}:{options.trex_dir}"
    worker = ClientWorker(options.python or "python3", remote=remote)
    try:
        yield from examine_machine(worker, options)
        yield from examine_interfaces(worker, options)
        said_hello = worker.ask(
            "hello", trex_dir=options.trex_dir, deadline_s=options.start_deadline_s
        )
    except TesterError as exc:
        yield (
            "TRex client",
            "missing",
            f"{exc.message}; name a Python 3.8 to 3.13 of that host with the option python",
        )
        return
    finally:
        worker.close()
    yield "TRex client", "ok", f"Python {said_hello['python']} there imports it"
