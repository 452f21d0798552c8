"""Worker processes and the pipe to each: requests, deadlines, and the last words of a dead worker."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import types
from multiprocessing.connection import Connection
from typing import Any, Protocol

from v6t.base.entry_points import DEFECT_HINT, describe_culprit
from v6t.base.errors import ExtensionError, TesterError
from v6t.drivers.lab import netns

DEADLINE_S = 30.0  # For an answer of a worker
PROCESS_TITLE = "lab of v6t"  # Process name of every worker
_SIGNALS = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}  # Not passed on to workers
_PRELOADED = ("v6t.drivers.", "v6t.packets.", "v6t.plugins.", "v6t.profiles.", "v6t.procedures.")


class WorkerRole(Protocol):
    """The work of a worker; its public methods are requests."""

    def idle(self, pipe: Connection) -> None:
        """Work until a request waits in the pipe."""


class Worker:
    """A child process in one role; it ends when this object or this process does.

    Args:
        role: name of the role in messages.
        role_class: a :class:`WorkerRole`.
        namespace: process whose network namespace the worker enters; None: this machine's.
        values: arguments of the class, pickled to the worker.
    """

    def __init__(
        self, role: str, role_class: type, /, *, namespace: int | None = None, **values: Any
    ) -> None:
        self.role = role
        self._pipe, theirs = multiprocessing.Pipe()
        self._log = os.fdopen(os.memfd_create("v6t-worker"), "rb")
        self._process = _start_process(theirs, f"/proc/{os.getpid()}/fd/{self._log.fileno()}")
        theirs.close()
        # the fork server may be older than the environment of this process
        self._send((dict(os.environ), os.getcwd(), sys.path))
        self._send((role_class, namespace, values))

    @property
    def pid(self) -> int:
        """Process ID of the worker."""
        return self._process.pid or 0

    def ask(self, request: str, /, deadline_s: float = DEADLINE_S, **arguments: Any) -> Any:
        """Send a request and wait for its answer.

        Raises:
            TesterError: the worker failed, died or did not answer in time.
            ExtensionError: it failed in an extension's code.
        """
        self.submit(request, **arguments)
        return self.answer(deadline_s)

    def submit(self, request: str, /, **arguments: Any) -> None:
        """Send a request without waiting; :meth:`answer` returns its answer later."""
        self._send((request, arguments))

    def answer(self, deadline_s: float = DEADLINE_S) -> Any:
        """Return the answer to the oldest open request; raises like :meth:`ask`."""
        try:
            if not self._pipe.poll(deadline_s):
                problem = f"the {self.role} did not answer within {deadline_s:g} s"
                raise TesterError(problem, code="worker-failed")
            status, value = self._pipe.recv()
        except (EOFError, OSError) as exc:
            raise self._make_death_error() from exc
        if status == "blamed":
            raise ExtensionError(value, DEFECT_HINT, code="worker-failed")
        if status == "error":
            raise TesterError(f"the {self.role} failed: {value}", code="worker-failed")
        return value

    def close(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()
        self._log.close()

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as exc:
            raise self._make_death_error() from exc
        except (pickle.PicklingError, AttributeError, TypeError) as exc:
            problem = f"the {self.role} cannot get its data: {exc}"
            raise ExtensionError(problem, DEFECT_HINT, code="worker-failed") from exc

    def _make_death_error(self) -> TesterError:
        self._process.kill()
        self._process.join()
        if self._log.closed:
            return TesterError(f"the {self.role} has ended", code="worker-failed")
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        words = lines[-1] if lines else f"status {self._process.exitcode}"
        return TesterError(f"the {self.role} died: {words}", code="worker-failed")


def _has_one_thread() -> bool:
    """Whether a fork is safe."""
    # a lock that another thread holds would stay locked in a fork
    return len(sys._current_frames()) == 1


def _start_process(pipe: Connection, log: str) -> Any:
    """Start a process by fork, or by fork server if there are several threads."""
    is_fork = _has_one_thread()
    context: Any = multiprocessing.get_context("fork" if is_fork else "forkserver")
    process = context.Process(target=_run, args=(pipe, log, is_fork), daemon=True)
    main = sys.modules["__main__"]
    # a signal for v6t is not for its workers; the worker unblocks them again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        if not is_fork:
            preloaded = sorted(n for n in sys.modules if n.startswith(_PRELOADED))
            context.set_forkserver_preload(preloaded)
            # a script that calls v6t without a main guard would run again in each worker
            sys.modules["__main__"] = types.ModuleType("__main__")
        process.start()
    except OSError as exc:
        raise TesterError(f"no worker could be started: {exc}", code="lab-failed") from exc
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def _run(pipe: Connection, log: str, inherits: bool) -> None:
    """Serve requests until the pipe is closed, with nothing left of the parent process."""
    gc.freeze()  # what the parent has stays shared: the collector never looks through it
    netns.die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in signal.valid_signals() - {signal.SIGINT}:
        if inherits and callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.setsid()
    netns.set_process_title(PROCESS_TITLE)
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    for name in os.listdir("/proc/self/fd") if inherits else ():
        if int(name) > 2 and int(name) != pipe.fileno():
            with contextlib.suppress(OSError):
                os.close(int(name))
    sys.stdout = sys.stderr = os.fdopen(2, "w", 1, closefd=False, errors="backslashreplace")
    status = 0
    try:
        environment, directory, sys.path = pipe.recv()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        _serve(pipe)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass
    except Exception as exc:  # noqa: BLE001  (the parent reads it as last words)
        print(f"{type(exc).__name__}: {exc}", flush=True)
        status = 1
    finally:
        os._exit(status)


def _serve(pipe: Connection) -> None:
    role_class, namespace, values = pipe.recv()
    if namespace is not None:
        netns.enter(namespace)
    role: WorkerRole = role_class(**values)
    gc.collect()
    gc.freeze()
    pipe.send(("ok", os.getpid()))
    while True:
        try:
            role.idle(pipe)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise
        except Exception as exc:  # noqa: BLE001  (the parent turns it into one sentence)
            pipe.recv()  # the next request gets the reason
            pipe.send(_describe_error(exc))
            return
        request, arguments = pipe.recv()
        try:
            pipe.send(("ok", getattr(role, request)(**arguments)))
        except Exception as exc:  # noqa: BLE001
            pipe.send(_describe_error(exc))


def _describe_error(exc: Exception) -> tuple[str, str]:
    blamed = describe_culprit(exc)
    return ("error", f"{type(exc).__name__}: {exc}") if blamed is None else ("blamed", blamed)
