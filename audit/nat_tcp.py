"""TCP through a NAT: RFC 5382, RFC 7857 and RFC 6146, section 3.5.2."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from v6t.audit.clause import Frame, Send
from v6t.audit.nat_errors import check_error_in, check_error_keeps
from v6t.audit.nat_hosts import (
    TCP_FLOW,
    UNMAPPED,
    Exchange,
    NatHosts,
    NatScenario,
    NatSession,
    NotTestable,
)
from v6t.audit.nat_mapping import check_filtering
from v6t.audit.packets import is_icmp_error

RATE_LIMIT_PAUSE_S = 1.5
"""After this pause a device may send another error, so that silence means something."""
UNSOLICITED_S = 6.0
"""How long a NAT must not answer an unsolicited SYN (RFC 5382, REQ-4)."""


def check_segments(h: NatHosts, opening: str, script: str) -> Exchange:
    """Play the segments of a new connection; see :meth:`NatSession.play`."""
    s = NatSession(h, TCP_FLOW)
    missing = yield from s.play(opening)
    if missing:
        raise NotTestable(f"no connection can be opened: {missing} does not arrive")
    missing = yield from s.play(script)
    return not missing, f"{missing} does not arrive" if missing else "as expected"


def open_with_stranger(h: NatHosts, port: int) -> Generator[Send, Sequence[Frame], NatSession]:
    """Open a connection; return one that another server tries with the same host."""
    s = yield from NatSession(h, TCP_FLOW).establish()
    return NatSession(h, TCP_FLOW, 0, s.port, h.server(1, port), s.public)


def check_silence(h: NatHosts) -> Exchange:
    """Send an unsolicited SYN and listen for an answer."""
    stranger = yield from open_with_stranger(h, 4322)
    yield from stranger.answer("S", pause_s=RATE_LIMIT_PAUSE_S, listen_s=UNSOLICITED_S - 0.1)
    return not h.wire.packets("right", h.heard)


def check_late_open(h: NatHosts) -> Exchange:
    """Send an unsolicited SYN, then open the connection from inside."""
    stranger = yield from open_with_stranger(h, 4323)
    yield from stranger.answer("S", pause_s=RATE_LIMIT_PAUSE_S)
    if h.wire.packets("right", h.heard):
        return False
    stranger.public = UNMAPPED
    is_open = yield from stranger.send("S")
    if not is_open or any(is_icmp_error(p) for p in h.wire.packets("right", h.heard)):
        return False
    missing = yield from stranger.play("<SA A>")
    return not missing, "the connection is not opened" if missing else "as expected"


# fmt: off
OPENING = "S> <SA A>"
CONNECTIONS = (
    *(NatScenario("RFC 5382", "REQ-2", f"tcp-{label}", "MUST",
                  f"the NAT forwards a connection that is {words}", expected, check_segments, segments,
                  plain=label == "exchange")
      for label, words, segments, expected in (
          ("exchange", "opened, carries data both ways and is closed",
           ("", f"{OPENING} <PA+ PA+> FA> <FA A>"), "every segment arrives, checksums right"),
          ("half-closed", "closed by one end carries what the other end still sends",
           (OPENING, "FA> <A <PA+ A>"), "data after a FIN, and its acknowledgement"),
          # RFC 9293, section 3.5, figure 8
          ("simultaneous-open", "opened by both ends at the same time",
           ("S>", "<S SA> <SA"), "the SYN from outside within, and both SYN-ACKs"),
          ("reset-in", "reset from outside", (OPENING, "<RA"), "the RST, inside"),
          ("reset-out", "reset from inside", (OPENING, "RA>"), "the RST, outside"))),
    NatScenario("RFC 7857", "2.2", "tcp-stray-reset", "SHOULD",
                "an RST whose number is outside the window ends no session",
                "data both ways after the RST", check_segments, (OPENING, "<R* <PA+ PA+>")),
    NatScenario("RFC 7857", "2.2", "tcp-after-reset", "SHOULD",
                "a session outlives an RST for 4 minutes: data pass afterwards",
                "data both ways after the RST", check_segments, (OPENING, "<RA? <PA+ PA+>"),
                nat64=("RFC 6146", "3.5.2.2", "MUST")),
    NatScenario("RFC 5382", "REQ-3", "tcp-filtering-address", "SHOULD",
                "a server may open a connection to a mapped host from another port",
                "the SYN, inside", check_filtering, (TCP_FLOW, 0)),
    NatScenario("RFC 5382", "REQ-3", "tcp-filtering-endpoint", "MAY",
                "any server may open a connection to a mapped host",
                "the SYN, inside", check_filtering, (TCP_FLOW, 1)),
    NatScenario("RFC 5382", "REQ-4", "tcp-unsolicited-silent", "MUST",
                "an unsolicited SYN is not answered for 6 seconds",
                f"silence for {UNSOLICITED_S:g} s", check_silence),
    NatScenario("RFC 5382", "REQ-4", "tcp-unsolicited-then-asked", "MUST",
                "an unsolicited SYN is dropped if the host's own SYN follows and opens the connection",
                "no answer to the first SYN; the host's own opens the connection", check_late_open),
    *(row for kind, code, mtu, words in (
          (3, 1, 0, "host unreachable"), (3, 3, 0, "port unreachable"),
          (3, 4, 1400, "fragmentation needed"), (11, 0, 0, "time exceeded"))
      for row in (
          NatScenario("RFC 5382", "REQ-9", f"tcp-error-{kind}-{code}", "SHOULD",
                      f"ICMP {words} about a connection reaches the host, the quoted packet translated",
                      "the error inside, about the host's own endpoint",
                      check_error_in, (TCP_FLOW, kind, code, mtu)),
          NatScenario("RFC 5382", "REQ-10", f"tcp-error-keeps-{kind}-{code}", "MUST",
                      f"ICMP {words} ends no connection", "data both ways after the error",
                      check_error_keeps, (TCP_FLOW, kind, code, mtu)))
      if row.label != "tcp-error-11-0"),
)
# fmt: on
