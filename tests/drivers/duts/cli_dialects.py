"""Testbed options for both command lines of :mod:`.fake_router`, and an sshd that starts one of them."""

import json
import sys
from typing import Any

from . import fake_router, sshserver

TELEMETRY = [
    {"command": "show load", "pattern": r"^CPU(?P<core>\d+) utilization: (?P<busy>\d+)%"},
    {"command": "show load", "pattern": r"sessions: (?P<used>[\d,]+) of (?P<limit>[\d,]+)"},
    {"command": "show load", "pattern": r"no route: (?P<drop_no_route>\d+)"},
]


def make_route_checks(show: str) -> list[dict[str, str]]:
    texts = [f"{{{side}.route6}} via {{{side}.via6}}" for side in fake_router.SIDES]
    return [{"command": show, "contains": text} for text in texts]


IOS: dict[str, Any] = {
    "cli": {"enable": "enable", "open": ["terminal length 0", "terminal width 0"],
            "abort": ["end"], "answers": {r"Destination filename \[.*\]\? *$": ""}},
    "version_command": "show version", "version_pattern": r"Version (\S+)",
    "prepare": ["copy running-config flash:v6t-before"],
    "configure": """
configure terminal
ipv6 unicast-routing
interface {left}
 ipv6 address {left.address6}
 no shutdown
interface {right}
 ipv6 address {right.address6}
 no shutdown
exit
ipv6 neighbor {left.host6} {left} {left.mac6:dots}
ipv6 neighbor {right.host6} {right} {right.mac6:dots}
ipv6 route {left.route6} {left.via6}
ipv6 route {right.route6} {right.via6}
end
""",
    "confirm": {"before": ["configure terminal revert timer 5", "end"],
                "keep": ["configure confirm"], "cancel": ["configure revert now"]},
    "verify": make_route_checks("show ipv6 route"),
    "restore": ["configure replace flash:v6t-before force"],
    "tidy": ["delete /force flash:v6t-before"],
    "compare": {"command": "show running-config",
                "but": ["^! Last configuration change", "^Current configuration"]},
    "flush": {"lines": ["clear sessions"],
              "check": {"command": "show sessions", "contains": "active: 0"}},
    "sessions": {"command": "show sessions", "pattern": r"active: (\d+)"},
    "telemetry": TELEMETRY,
}  # fmt: skip
_SIDE = "set interfaces {%s} unit 0 family inet6 address {%s.address6}"
JUNOS: dict[str, Any] = {
    "cli": {"open": ["set cli screen-length 0"], "abort": ["rollback 0", "exit"]},
    "version_command": "show version", "version_pattern": r"^Junos: (\S+)",
    "prepare": ["configure exclusive", "save v6t-before", "exit"],
    "configure": [
        "configure exclusive",
        "set forwarding",
        *(_SIDE % (side, side) for side in fake_router.SIDES),
        *(f"{_SIDE} ndp {{%s.host6}} mac {{%s.mac6}}" % ((side,) * 4) for side in fake_router.SIDES),
        "set routing-options rib inet6.0 static route {left.route6} next-hop {left.via6}",
        "set routing-options rib inet6.0 static route {right.route6} next-hop {right.via6}",
        "commit confirmed 5",
        "exit",
    ],
    "confirm": {"keep": ["configure exclusive", "commit", "exit"]},
    "verify": make_route_checks("show route table inet6.0"),
    "restore": ["configure exclusive", "load override v6t-before", "commit", "exit"],
    "tidy": ["file delete v6t-before"],
    "compare": {"command": "show configuration | display set | no-more"},
    "telemetry": TELEMETRY,
}  # fmt: skip
DIALECTS = {"ios": IOS, "junos": JUNOS}


class FakeRouterServer(sshserver.Server):
    """sshd of the lab that starts the fake router's command line at login."""

    def __init__(self, dialect: str, purpose: str = "router") -> None:
        super().__init__(f"{purpose}-{dialect}")
        self.dialect = dialect
        self.configure_sshd(
            f"$ a ForceCommand exec {sys.executable} -IS {fake_router.__file__} {dialect}"
        )
        self.shell("mkdir -p /run/fakerouter")

    def write_file(self, name: str, text: str) -> None:
        """Write a file of the fake router; an empty text removes it."""
        path = f"/run/fakerouter/{name}"
        self.shell(f"cat >{path}" if text else f"rm -f {path}", text)

    @property
    def configuration(self) -> list[str]:
        return json.loads(self.shell("cat /run/fakerouter/running 2>/dev/null || echo '[]'"))

    @property
    def received_lines(self) -> list[str]:
        return self.shell("cat /run/fakerouter/typed 2>/dev/null; true").splitlines()
