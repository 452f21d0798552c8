"""``box LINE...``: have lines typed at a device, and print what it says.

``box``: have those of standard input typed; what it says of them goes to standard error, for who
starts this reads its standard output.

``box --back-to DIGEST LINE``: have those of standard input typed unless the answer to a line has this
digest already, and see that it has it then.

Where a v6t has the device, its login is used; otherwise this program logs in by itself. It imports
nothing of v6t before it must: it is started once for every read-back.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import socket
import sys

SOCKET = "V6T_BOX"
"""Variable with the socket of the v6t that has the device."""
_PATIENCE_S = 5.0
Typed = tuple[int, str, str]


def main(words: list[str] | None = None) -> int:
    """Do that; exit status 0, 1: a line was refused, 3: there is no connection."""
    parser = argparse.ArgumentParser(prog="box")
    parser.add_argument("--at", default="", help="the device, as JSON")
    parser.add_argument("--ends", action="store_true", help="print the connection's two addresses")
    parser.add_argument("--digest", action="store_true", help="print a digest in place of the text")
    parser.add_argument(
        "--back-to", default="", help="the digest that the answer must have in the end"
    )
    parser.add_argument("--but", action="append", default=[], help="leave lines out that match")
    parser.add_argument("lines", nargs="*")
    given = parser.parse_args(words)
    if given.ends:
        from v6t.drivers.duts.console.alone import ends

        print(ends(given.at), end="")
        return 0
    if given.back_to:
        status, out, err = _back(given)
    else:
        status, out, err = _typed(given.at, given.lines or _input())
        out = out if status or not given.digest else _digest(out, given.but) + "\n"
    print(out, end="", file=sys.stdout if given.lines and not given.back_to else sys.stderr)
    if err:
        print(err, file=sys.stderr)
    return status


def _back(given: argparse.Namespace) -> Typed:
    """Have a device made what it was, unless it is."""
    done: Typed = (0, "", "")
    for lines in ([], _input()):
        if lines:
            done = _typed(given.at, lines)
            if done[0]:
                return done
        status, out, err = _typed(given.at, given.lines)
        if status:
            return status, "", err
        if _digest(out, given.but) == given.back_to:
            return done
    return 1, done[1], f"the answer to '{' '.join(given.lines)}' is not what it was"


def _input() -> list[str]:
    return [line for line in sys.stdin.read().split("\n") if line]


def _digest(text: str, but: list[str]) -> str:
    lines = [t for t in text.split("\n") if not any(re.search(pattern, t) for pattern in but)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _typed(at: str, lines: list[str]) -> Typed:
    typed = _by_session(os.environ.get(SOCKET, ""), lines)
    if typed is None:
        from v6t.drivers.duts.console.alone import typed as by_itself

        typed = by_itself(at, lines)
    return typed


def _by_session(path: str, lines: list[str]) -> Typed | None:
    """Through the v6t that has the device; None: there is none that listens."""
    if not path or not _own(os.path.dirname(path)):
        return None
    with socket.socket(socket.AF_UNIX) as session:
        session.settimeout(_PATIENCE_S)
        try:
            session.connect(path)
            if not session.recv(1):
                return None
        except OSError:
            return None
        session.settimeout(None)
        try:
            session.sendall(json.dumps(lines).encode())
            session.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: session.recv(65536), b""))
        except OSError:
            answer = b""
    if not answer:
        return 3, "", "the v6t that had the connection has ended: what the lines did is unknown"
    reply = json.loads(answer)
    return int(reply["status"]), str(reply["out"]), str(reply["err"])


def _own(directory: str) -> bool:
    """Whether it is this user's: once it is removed, anybody may make one of its name."""
    try:
        return os.stat(directory, follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
