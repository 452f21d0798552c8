"""OpenSSH's client: the user's configuration behind v6t's own rules.

ssh takes the first value it finds, so v6t's configuration comes first: host keys are checked, nothing is
forwarded, and ssh does not prompt. It includes the user's (or the testbed's), so that aliases, keys, agents
and jumps work as at the prompt. It is a file because ssh passes only that on to the ssh of a jump.
"""

import glob
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import EnvironmentLacking, TesterError, UsageError
from v6t.drivers.transport.process import build_clean_environment
from v6t.drivers.transport.ssh_options import USER_CONFIG, SshOptions

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
ALIVE_S, ALIVE_COUNT = 5, 3
_FETCH_S, _QUERY_S = 600.0, 15.0
_RULES = {
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
    "ServerAliveInterval": str(ALIVE_S),
    "ServerAliveCountMax": str(ALIVE_COUNT),
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "NoHostAuthenticationForLocalhost": "no",
    "VerifyHostKeyDNS": "no",
    "GSSAPIDelegateCredentials": "no",
    "ControlMaster": "no",
    "ControlPath": "none",
    "RequestTTY": "no",
    "LogLevel": "INFO",
}


def check_client() -> EnvironmentLacking | None:
    """Return an error if this machine has no ssh program, else None."""
    if shutil.which("ssh") is not None:
        return None
    problem = "ssh is not installed"
    return EnvironmentLacking(problem, "apt-get install openssh-client", code="missing-program")


class SshClient:
    """Builds ssh commands for a host; its configuration file is removed with the object."""

    def __init__(self, options: SshOptions, before: Sequence[str] = ()) -> None:
        if (lacking := check_client()) is not None:
            raise lacking
        self.options = options
        self.host = options.host or "localhost"
        self._before = list(before)
        text = self._make_configuration()
        self.directory = Path(tempfile.mkdtemp(prefix="v6t-ssh-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.directory, True)
        (self.directory / "config").write_text(text, encoding="utf-8")

    def make_command_prefix(self, *options: str, password: bool = False) -> list[str]:
        """Return the ssh command up to its options; the host and the remote command follow."""
        switches = ("yes", "no") if password else ("no", "yes")
        return [
            *self._before, "ssh", "-F", str(self.directory / "config"), "-T",
            "-o", f"PasswordAuthentication={switches[0]}",
            "-o", f"KbdInteractiveAuthentication={switches[0]}",
            "-o", f"BatchMode={switches[1]}", "-o", "NumberOfPasswordPrompts=1", *options,
        ]  # fmt: skip

    def make_command(self, program: Sequence[str]) -> list[str]:
        """Return the ssh command that runs a program on the host."""
        return [*self.make_command_prefix(), "--", self.host, "exec " + shlex.join(program)]

    def fetch(self, source: str, target: Path) -> None:
        """Copy a file from the host over SFTP, or raise TesterError."""
        place = f"[{self.host}]" if ":" in self.host else self.host
        words = ["scp", "-q", "-B", "-F", str(self.directory / "config"), "--", f"{place}:{source}"]
        try:
            done = subprocess.run(
                [*self._before, *words, str(target)],
                capture_output=True, timeout=_FETCH_S, check=False, env=build_clean_environment(),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as exc:
            reason = str(exc)
        else:
            status = f"status {done.returncode}" if done.returncode else ""
            reason = status and (done.stderr.decode(errors="replace").strip() or status)
        if reason:
            problem = f"{source} could not be fetched from {self.host}: {reason}"
            raise TesterError(problem, code="download-failed")

    def _make_configuration(self) -> str:
        o = self.options
        own = dict(_RULES, ConnectTimeout=str(max(1, round(o.connect_deadline_s))))
        if o.known_hosts:
            paths = (_require_file(text, "known hosts") for text in o.known_hosts.split())
            files = " ".join(map(_quote, paths))
            own |= {"UserKnownHostsFile": files, "GlobalKnownHostsFile": "none"}
            own["KnownHostsCommand"] = "none"
        lines = [f"Host {self.host}"]
        for name, value in (("User", o.user), ("Port", o.port), ("ProxyJump", o.jump)):
            if value:
                lines.append(f"  {name} {value}")
        lines.append("Host *")
        lines += [f"  {name} {value}" for name, value in own.items()]
        # jump hosts are reached by an ssh without v6t's command line: their options are here
        lines += ["  PasswordAuthentication no", "  KbdInteractiveAuthentication no"]
        for key in o.identity:
            lines.append(f"  IdentityFile {_quote(_require_file(key, 'key'))}")
        if o.identity:
            lines += ["  IdentitiesOnly yes", "  IdentityAgent none"]
        # Include takes patterns, but no tokens such as %h
        lines += [f'Include "{glob.escape(str(path))}"' for path in self._find_configurations()]
        return "\n".join(lines) + "\n"

    def _find_configurations(self) -> list[Path]:
        if self.options.config == USER_CONFIG:  # the existing files that ssh reads by default
            usual = (Path(USER_CONFIG).expanduser(), SYSTEM_CONFIG)
            return [path.resolve() for path in usual if path.is_file()]
        return [_require_file(text, "configuration") for text in self.options.config.split()]


def find_connection_addresses(ssh: SshOptions) -> str:
    """Return the known addresses of a connection's ``server`` and ``client``, one per line."""
    if ssh.lab:
        return ""
    client = SshClient(ssh)
    words = [*client.make_command_prefix("-G"), "--", client.host]
    environment = build_clean_environment()
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_QUERY_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:  # a `Match exec` of the user's configuration hangs
        return ""
    finally:
        client.remove()
    settings = {n: value for n, _, value in (t.partition(" ") for t in done.stdout.splitlines())}
    host, port = settings.get("hostname", ""), int(settings.get("port", "22"))
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except (OSError, ValueError):
        return ""  # only a host on the way resolves the name
    ends = f"server {str(address[0]).partition('%')[0]}\n"
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)  # sends nothing
        except OSError:
            return ends
        if not {"proxyjump", "proxycommand"} & settings.keys():
            ends += f"client {str(probe.getsockname()[0]).partition('%')[0]}\n"
    return ends


def _require_file(text: str, what: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_file() or not os.access(path, os.R_OK):
        problem = f"the {what} file {text} of the SSH settings does not exist"
        raise UsageError(problem, code="file-not-found")
    return path.resolve()


def _quote(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'
