"""A TRex server that v6t starts and stops; what others started is never stopped unasked."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from v6t.base.errors import TesterError
from v6t.drivers.trex import supervise
from v6t.drivers.trex.program import FENCED, kept_by_dpdk, server_program
from v6t.drivers.trex.remote import Remote

RESTORING_S = 30.0
"""How long TRex may take to close its ports, and the kernel to take NICs back."""
TELLING = 4
"""Lines of a server's output that are shown when it has not started."""


class Server:
    """One running ``t-rex-64 -i``.

    Attributes:
        log: what it prints; stays where it is if the server failed.
    """

    def __init__(
        self,
        trex_dir: Path | str,
        config: str,
        arguments: Sequence[str],
        *,
        prefix: str,
        nics: Sequence[str] = (),
        fence: Sequence[int] = (),
        namespace_pid: int | None = None,
        remote: Remote | None = None,
    ) -> None:
        """Start it; :meth:`wait` until it answers.

        Args:
            trex_dir: the installation.
            config: text of the configuration file.
            arguments: after ``-i --cfg FILE``.
            prefix: see :func:`~v6t.drivers.trex.program.server_program`.
            nics: full PCI addresses: ``t-rex-64`` is started, which binds them to DPDK, instead of
                ``_t-rex-64``; at the end they are given back.
            fence: TCP ports that other hosts shall not reach meanwhile.
            namespace_pid: run inside the network namespace of this process.
            remote: host to run on; None: this one.
        """
        handle, name = tempfile.mkstemp(prefix="v6t-trex-", suffix=".log")
        self.log = Path(name)
        self._failed = False
        self._config: Path | None = None
        directory = str(trex_dir)
        binary = "./t-rex-64" if nics else "./_t-rex-64"
        if namespace_pid is None:
            text = (
                f"env LD_LIBRARY_PATH={shlex.quote(_libraries(directory))} {binary} -i "
                f'--cfg "$cfg" {shlex.join(arguments)}'
            )
            program = server_program(directory, config, text, prefix=prefix, nics=nics, fence=fence)
            if remote is not None:
                program = supervise.command(remote.command(program))
            environment, where = None, None
        else:
            cfg, name = tempfile.mkstemp(prefix="v6t-trex-", suffix=".yaml")
            with os.fdopen(cfg, "w", encoding="utf-8") as out:
                out.write(config)
            self._config = Path(name)
            program = supervise.command(
                [binary, "-i", "--cfg", name, *arguments], namespace_pid, kept_by_dpdk(prefix)
            )
            environment = {**os.environ, "LD_LIBRARY_PATH": _libraries(directory)}
            where = directory
        with os.fdopen(handle, "wb") as output:
            self._process = subprocess.Popen(
                program,
                # the end of this is the end of a server that no guard of ours watches
                stdin=subprocess.PIPE if namespace_pid is None else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=where,
                env=environment,
                start_new_session=True,
            )

    def wait(self, answers: Callable[[], bool], deadline_s: float) -> None:
        """Return when ``answers`` is true.

        Raises:
            TesterError: the server ended or did not answer in time; with its last words.
        """
        until = time.monotonic() + deadline_s
        while not answers():
            if self._process.poll() is not None:
                raise self.failure("TRex did not start")
            if time.monotonic() > until:
                raise self.failure(f"TRex did not answer within {deadline_s:g} s")
            time.sleep(0.1)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    @property
    def fenced(self) -> bool:
        """Whether other hosts cannot reach its ports."""
        return FENCED in self._lines()

    def failure(self, what: str) -> TesterError:
        """What to raise about its end; its output is kept.

        Args:
            what: happened.
        """
        self._failed = True
        last = [s for s in self._lines() if s != FENCED][-TELLING:]
        output = " / ".join(last)[-600:] or "it said nothing"
        return TesterError(f"{what}: {output}", f"all it said: {self.log}", code="tester-fault")

    def _lines(self) -> list[str]:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line for s in text.splitlines() if (line := s.strip())]

    def close(self) -> None:
        """Stop it and everything it started. May be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=RESTORING_S)
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(timeout=2 * supervise.GRACE_S + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._config is not None:
            self._config.unlink(missing_ok=True)
        if not self._failed:
            self.log.unlink(missing_ok=True)


def _libraries(directory: str) -> str:
    """Where the server finds the libraries its installation brings."""
    here = Path(directory)
    return ":".join(str(p) for p in (here, here / "so", here / "so" / "x86_64"))
