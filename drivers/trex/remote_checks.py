"""What stands between a user and a TRex elsewhere, or its ports: for ``v6t doctor``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from v6t.base.errors import TesterError, V6tError
from v6t.drivers.tester_kind import Finding
from v6t.drivers.trex.channel import ClientWorker, WorkerError
from v6t.drivers.trex.doctor import describe_server
from v6t.drivers.trex.machine import examine_interfaces, examine_machine
from v6t.drivers.trex.options import TrexOptions

GRACE_S = 5.0


def examine_remote(options: TrexOptions) -> Iterator[Finding]:
    """Login, installation and client on the host that ``ssh`` names."""
    if shutil.which("ssh") is None:
        yield "ssh", "missing", "no OpenSSH client here: apt-get install openssh-client"
        return
    if not options.trex_dir:
        yield "TRex", "missing", "ssh needs trex_dir, the directory of TRex on that host"
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
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        yield "ssh", "missing", f"{host}: {reason}; `ssh {host} true` must work unasked"
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
        yield "TRex client", "ok", f"Python {said_hello['python']} there imports it"
        yield from _server(worker, options)
    except TesterError as exc:
        yield (
            "TRex client",
            "missing",
            f"{exc.message}; name a Python 3.8 to 3.13 of that host with the option python",
        )
        return
    finally:
        worker.close()


def _server(worker: ClientWorker, options: TrexOptions) -> Iterator[Finding]:
    """What a server that runs there says: what addresses its ports have the kernel does not know."""
    where = f"{options.server}:{options.rpc_port}"
    try:
        facts = worker.ask(
            "connect",
            server=options.server,
            rpc_port=options.rpc_port,
            pub_port=options.pub_port,
            timeout_s=3,
        )
    except WorkerError as exc:
        if exc.kind != "connect":
            raise
        yield "TRex server", "note", f"none answers at {where} there: v6t starts one"
        return
    yield from describe_server(where, facts)
