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

from v6t.drivers.trex import supervise
from v6t.drivers.trex.remote import Remote, until_input_ends
from v6t.profiles.errors import TesterError

START_S = 60.0


class Server:
    """One running ``t-rex-64 -i``."""

    def __init__(
        self,
        trex_dir: Path | str,
        config: str,
        arguments: Sequence[str],
        *,
        wrapper: bool,
        namespace_pid: int | None = None,
        remote: Remote | None = None,
    ) -> None:
        """Start it; :meth:`wait` until it answers.

        Args:
            trex_dir: the installation.
            config: text of the configuration file.
            arguments: after ``-i --cfg FILE``.
            wrapper: start ``t-rex-64``, which binds NICs to DPDK, instead of ``_t-rex-64``.
            namespace_pid: run inside the network namespace of this process.
            remote: host to run on; None: this one.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the server)
        self._config: Path | None = None
        directory = str(trex_dir)
        if remote is not None:
            text = _program_text(directory, arguments, wrapper)
            program = remote.command(
                until_input_ends(
                    f'cfg=$(mktemp) && printf %s {shlex.quote(config)} > "$cfg" && '
                    f"cd {shlex.quote(directory)}",
                    text,
                    'rm -f "$cfg"',
                )
            )
            environment, where = None, None
        else:
            handle, name = tempfile.mkstemp(prefix="v6t-trex-", suffix=".yaml")
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(config)
            self._config = Path(name)
            binary = "./t-rex-64" if wrapper else "./_t-rex-64"
            program = [binary, "-i", "--cfg", name, *arguments]
            environment = {**os.environ, "LD_LIBRARY_PATH": _libraries(directory)}
            where = directory
        self._process = subprocess.Popen(
            supervise.command(program, namespace_pid),
            # the end of this is the end of a remote server
            stdin=subprocess.DEVNULL if remote is None else subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=where,
            env=environment,
            start_new_session=True,
        )

    def wait(self, answers: Callable[[], bool], deadline_s: float = START_S) -> None:
        """Return when ``answers`` is true.

        Raises:
            TesterError: the server ended or did not answer in time; with its last words.
        """
        until = time.monotonic() + deadline_s
        while not answers():
            if self._process.poll() is not None:
                raise TesterError(f"TRex did not start: {self.last_words()}")
            if time.monotonic() > until:
                raise TesterError(f"TRex did not answer within {deadline_s:g} s")
            time.sleep(0.1)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    def last_words(self) -> str:
        """The most telling line of its output."""
        self._log.seek(0)
        lines = [s.strip() for s in self._log.read().decode(errors="replace").splitlines()]
        lines = [s for s in lines if s]
        telling = [s for s in lines if "error" in s.lower() or "fail" in s.lower()]
        return (telling or lines or ["it said nothing"])[-1][:300]

    def close(self) -> None:
        """Stop it and everything it started. May be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2 * supervise.GRACE_S)
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(timeout=2 * supervise.GRACE_S + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._config is not None:
            self._config.unlink(missing_ok=True)
        self._log.close()


def _libraries(directory: str) -> str:
    """Where the server finds the libraries its installation brings."""
    here = Path(directory)
    return ":".join(str(p) for p in (here, here / "so", here / "so" / "x86_64"))


def _program_text(directory: str, arguments: Sequence[str], wrapper: bool) -> str:
    binary = "./t-rex-64" if wrapper else "./_t-rex-64"
    words = shlex.join(arguments)
    return (
        f'env LD_LIBRARY_PATH={shlex.quote(_libraries(directory))} {binary} -i --cfg "$cfg" {words}'
    )
