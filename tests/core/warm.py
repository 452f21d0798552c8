"""Start ``v6t`` as a process that need not import everything first.

A process that has imported v6t waits; each command is a fork of it, with the arguments, directory,
environment, open files and network namespace of whoever asks. :func:`command` is for a shell or a
program that waits: a small launcher stands where the command would. :class:`Process` is a child of
the test itself, to be stopped, signalled and killed. What is about the start, standard streams or a
terminal starts the command itself.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import functools
import gc
import inspect
import json
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_CLONE_NEWNET = 0x40000000
_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
_PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("!I")

# it imports nothing of v6t and of site-packages: that is its point
_LAUNCHER = """\
import array, json, os, socket, struct, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
asked = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ), True]).encode()
files = array.array("i", [0, 1, 2, os.open("/proc/self/ns/net", os.O_RDONLY)])
line.sendmsg([struct.pack("!I", len(asked))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
line.sendall(asked)
status = line.recv(4)
sys.exit(struct.unpack("!i", status)[0] if status else 1)
"""


def command(python: Path | str = sys.executable) -> list[str]:
    """Return the command line before the arguments; the process ends with this one.

    Args:
        python: interpreter of an environment with v6t.
    """
    place = _server(python)
    return [sys.executable, "-I", "-S", str(place / "launcher.py"), str(place / "socket")]


class Process(subprocess.Popen[str]):
    """``v6t WORDS`` in a new session; otherwise like ``subprocess.Popen``."""

    def __init__(self, words: list[str], *, network: int | str = "self", **popen: Any) -> None:
        """Start it.

        Args:
            words: arguments of v6t.
            network: a process in whose network namespace it is.
            popen: pipes.
        """
        self._network = network
        super().__init__(["v6t", *words], text=True, **popen)

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments
        files = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        files = [number if file == -1 else file for number, file in enumerate(files)]
        network = os.open(f"/proc/{self._network}/ns/net", os.O_RDONLY)
        text = json.dumps([asked["args"][1:], os.getcwd(), dict(os.environ), False]).encode()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(_server(sys.executable) / "socket"))
            socket.send_fds(line, [_LENGTH.pack(len(text))], [*files, network])
            line.sendall(text)
            (self.pid,) = struct.unpack("!i", line.recv(4))
        os.close(network)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[end] for end in ends))


@functools.cache
def _server(python: Path | str) -> Path:
    """Start the server process, which ends with this one; return the path of its socket."""
    place = Path(tempfile.mkdtemp(prefix="v6t-warm-"))
    launcher, listening = place / "launcher.py", place / "socket"
    launcher.write_text(_LAUNCHER)
    server = subprocess.Popen(
        [python, "-I", __file__, listening],
        # an OpenBLAS thread would be missing in the fork by _sibling(), which waits for it
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    if server.stdout is None or server.stdout.readline() != "ready\n":
        raise OSError("the process to fork from did not start")

    @atexit.register
    def end() -> None:
        server.kill()
        server.communicate()
        for path in (launcher, listening):
            path.unlink()
        place.rmdir()

    return place


def main(path: str) -> int:
    """Fork a process for each launcher, and send it the exit status of its command."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _import_all()
    if len(os.listdir("/proc/self/task")) > 1:
        return 1
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    print("ready", flush=True)
    running: dict[int, tuple[int, socket.socket]] = {}  # by what tells that a command has ended
    while True:
        gone = {line: pid for pid, line in running.values()}
        ready = select.select([listening, *running, *gone], [], [])[0]
        for ended in running.keys() & ready:
            pid, line = running.pop(ended)
            gone.pop(line)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(ended)
            with contextlib.suppress(OSError), line:
                line.sendall(struct.pack("!i", status))
        for line in gone.keys() & ready:
            os.kill(gone[line], signal.SIGKILL)  # nobody waits for it any more
        if listening not in ready:
            continue
        line, _ = listening.accept()
        try:
            words, directory, environment, waits, files = _read_request(line)
        except EOFError:
            line.close()
            continue
        pid = os.fork() if waits else _fork_sibling()
        if not pid:
            for other in (listening, line, *gone):
                other.close()
            return _take_over(words, directory, environment, files)
        for file in files:
            os.close(file)
        if waits:
            running[os.pidfd_open(pid)] = pid, line
        else:
            with line:
                line.sendall(struct.pack("!i", pid))


def _fork_sibling() -> int:
    """Fork a process that is a child of this one's parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid: int = python.syscall(_SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    if pid < 0:
        raise OSError("clone")
    return pid


def _import_all() -> None:
    """Import everything that a command may need."""
    import importlib
    import pkgutil

    import v6t.core
    import v6t.drivers.duts
    import v6t.plugins

    for room in (v6t.core, v6t.plugins, v6t.drivers.duts):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _read_request(line: socket.socket) -> tuple[list[str], str, dict[str, str], bool, list[int]]:
    files = array.array("i")
    head, ancillary, _, _ = line.recvmsg(_LENGTH.size, socket.CMSG_SPACE(4 * files.itemsize))
    for _, _, data in ancillary:
        files.frombytes(data)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    text = b""
    while len(text) < length:
        part = line.recv(length - len(text))
        if not part:
            raise EOFError
        text += part
    words, directory, environment, waits = json.loads(text)
    return words, directory, environment, waits, [*files]


def _take_over(
    words: list[str], directory: str, environment: dict[str, str], files: list[int]
) -> int:
    """Take over the arguments, directory, environment and files of the launcher."""
    from v6t.core.cli import main as cli

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, 0)
    *standard, network = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
    if libc.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    for file in files:
        os.close(file)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    os.setsid()
    sys.argv = ["v6t", *words]
    cli.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
