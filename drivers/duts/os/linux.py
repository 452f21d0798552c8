"""Links, addresses, neighbors, routes and forwarding of a Linux device."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import collapse_addresses, ip_network
from typing import Any

from v6t.drivers.duts import plan
from v6t.drivers.duts.steps import make_object_step, make_value_step
from v6t.intent.device import Address, Interface, LinkIntent

MAX_CHECKED_ROUTES = 64  # routes that a read-back looks up; it does not check any others
ROUTE_PROTOCOL = 86  # routing protocol number that marks v6t's routes


def make_module_step(
    name: str, why: str, unload: str, *, in_lab: bool, load: str = ""
) -> plan.Step:
    """Return the step that loads a kernel module; the rollback unloads it outside the lab."""
    return plan.Step(
        load or f"modprobe {name}",
        f"{why} (it stays loaded: labs share the kernel)" if in_lab else why,
        read=f"ls -d /sys/module/{name} 2>/dev/null || true",
        expected=plan.expect_text(f"/sys/module/{name}"),
        undo="" if in_lab else unload,
        existing=plan.IfExists.KEEP,
    )


def make_sysctl_key(version: int, port: str, name: str) -> str:
    """Return the ``sysctl`` key of an interface, with slashes if the interface name has dots."""
    path = f"net/ipv{version}/conf/{port}/{name}"
    return path if "." in port else path.replace("/", ".")


def make_sysctl_step(values: Mapping[str, str | int], why: str, show: str = "") -> plan.Step:
    """Return the step that sets kernel settings; the rollback also restores what ``show`` prints."""
    return plan.Step(
        f"sysctl -q -w {' '.join(f'{name}={value}' for name, value in values.items())}",
        why,
        read=f"sysctl -e {' '.join(values)}{show}",
        expected=expect_settings(values),
        undo="sysctl -q -e -p -",
        undo_text="{old}",
    )


def expect_settings(values: Mapping[str, str | int]) -> plan.Expectation:
    """Expect these settings in the output of ``sysctl``, which may write dots as slashes."""
    expected = {name.replace("/", "."): str(value) for name, value in values.items()}

    def find_wrong_settings(output: str) -> dict[str, str]:
        """Return the actual values of settings that differ; an absent setting has the value ''."""
        rows = (line.partition("=") for line in output.splitlines())
        present = {name.strip().replace("/", "."): value.strip() for name, _, value in rows}
        return {n: present.get(n, "") for n, v in expected.items() if present.get(n) != v}

    def find_problem(output: str) -> str | None:
        for name, value in find_wrong_settings(output).items():
            return f"{name} is {plan.shorten_output(value)}, not '{expected[name]}'"
        return None

    def find_difference(output: str) -> tuple[str, str]:
        wrong = find_wrong_settings(output)
        values = ", ".join(f"{name} {value or 'absent'}" for name, value in wrong.items())
        return values, ", ".join(f"{name} {expected[name]}" for name in wrong)

    description = ", ".join(f"{name} {value}" for name, value in values.items())
    if len(values) > 3:
        description = f"these {len(values)} values"
    return plan.Expectation(description, find_problem, find_difference)


def make_forwarding_step(ports: Iterable[str]) -> plan.Step:
    """Return the step that enables IPv4 and IPv6 forwarding between the ports."""
    own4, own6 = ("rp_filter", "send_redirects"), ("disable_ipv6", "accept_dad", "accept_ra")
    values = {f"net.ipv{version}.conf.all.forwarding": 1 for version in (4, 6)}
    values |= {f"net.ipv4.conf.all.{name}": 0 for name in own4}
    for port in ports:
        keys = (make_sysctl_key(v, port, n) for v, names in ((4, own4), (6, own6)) for n in names)
        values |= dict.fromkeys(keys, 0)
    # setting the first key of all makes the kernel change the last one, which is restored at the end
    show = (
        "; sysctl -a -r '^net\\.ipv[46]\\.conf\\.[^.]*\\.forwarding$'"
        "; sysctl -e net.ipv4.conf.all.accept_redirects"
    )
    why = "forward both IP versions from any source; no redirects, no duplicate address detection"
    return make_sysctl_step(values, why, show)


def make_neighbor_table_step(count: int) -> plan.Step:
    """Return the step that enlarges the neighbor table; a full table loses entries silently."""
    room = 1 << (2 * count).bit_length()
    values = {
        f"net.ipv{v}.neigh.default.gc_thresh{n}": room * n // 3 if n < 3 else room
        for v in (4, 6)
        for n in (3, 2, 1)
    }
    return make_sysctl_step(values, f"room for {count} neighbors")


def make_gone_test(name: str) -> str:
    """Return a shell line that succeeds if the interface does not exist."""
    return f"! ip link show dev {name} >/dev/null 2>&1"


def make_show_link_command(name: str) -> str:
    """Return a shell line that prints an interface, and nothing if it does not exist."""
    return f"ip -o link show dev {name} 2>/dev/null || true"


# A line of ``ip -o link show``: name, flags, and the words before the link-layer type.
_LINK_PATTERN = re.compile(r"\d+: ([^\s:@]+)(?:@\S+)?: <([^>]*)> ([^\\]*)")


def expect_link(name: str, *flags: str, **numbers: int) -> plan.Expectation:
    """Expect an interface with these flags and numbers, such as ``mtu`` and ``qlen``."""

    def find_problem(output: str) -> str | None:
        match = _LINK_PATTERN.match(output.strip())
        if match is None or match[1] != name:
            return f"the interface {name} does not exist"
        missing = [flag for flag in flags if flag not in match[2].split(",")]
        missing += [words for words in expected if plan.find_line(match[3], words) is None]
        return f"{name} is not {missing[0]}" if missing else None

    expected = [f"{word} {number}" for word, number in numbers.items()]
    return plan.Expectation(", ".join([*expected, *flags]) or name, find_problem)


def make_mtu_step(name: str, mtu: int) -> plan.Step:
    """Return the step that sets the MTU of an interface."""
    write, gone_test = f"ip link set dev {name} mtu VALUE", make_gone_test(name)
    # ignore the alias after a backslash, which may contain the same words
    read = f"ip -o link show dev {name} | sed 's/^[^\\\\]* mtu \\([0-9]*\\) .*/\\1/'"
    return make_value_step(write, mtu, f"MTU of {name}", read=read, gone_test=gone_test)


def make_link_settings_step(
    name: str, settings: str, why: str, expected: plan.Expectation
) -> plan.Step:
    """Return the step that brings up an interface of the plan with settings such as its MTU."""
    read = make_show_link_command(name)
    return plan.Step(f"ip link set dev {name} {settings} up", why, read=read, expected=expected)


def make_link_up_step(name: str, why: str = "") -> plan.Step:
    """Return the step that brings an interface up; the rollback keeps its IPv6 addresses."""
    keep = make_sysctl_key(6, name, "keep_addr_on_down")
    return plan.Step(
        f"ip link set dev {name} up",
        why or f"{name} carries test traffic",
        read=f"ip -o link show dev {name} up | sed 's/^[^<]*<\\([^>]*\\)>.*/\\1/' | tr , '\\n' | "
        "grep -x -e UP -e LOWER_UP || true",
        expected=plan.expect_text("UP\nLOWER_UP"),
        undo=f"k=$(sysctl -n {keep} 2>/dev/null); sysctl -q -e -w {keep}=1; ip link set dev {name} down; "
        f"s=$?; sysctl -q -e -w {keep}=${{k:-0}}; exit $s",
        existing=plan.IfExists.KEEP,
        gone_test=make_gone_test(name),
    )


def make_vlan_steps(parent: str, name: str, vlan_id: int, mtu: int, why: str) -> list[plan.Step]:
    """Return the steps that create a VLAN interface, set its MTU and bring it up."""
    create = f"ip link add link {parent} name {name} type vlan id {vlan_id}"
    read = f"ip -d -o link show dev {name} 2>/dev/null || true"
    expected = plan.expect_words(f"{name}@{parent}", "vlan protocol 802.1Q", f"id {vlan_id}")
    vlan = make_object_step(create, f"ip link del {name}", why, read=read, expected=expected)
    return [vlan, make_mtu_step(name, mtu), make_link_up_step(name)]


def make_address_step(address: Interface, port: str) -> plan.Step:
    """Return the step that adds an address to a port, without duplicate address detection."""
    nodad = " nodad" if address.version == 6 else ""
    show = f"ip -o -{address.version} addr show dev {port} to {address.ip}/{address.max_prefixlen}"
    # the same address with another prefix length is another one
    ours = f"{show} | grep -F ' {address.with_prefixlen} '"

    def find_problem(output: str) -> str | None:
        family = "inet6" if address.version == 6 else "inet"
        if (line := plan.find_line(output, f"{family} {address.with_prefixlen}")) is None:
            return f"{address} is not on {port}"
        bad = [w for w in ("tentative", "dadfailed") if w in line.split()]
        return f"{address} is {bad[0]}" if bad else None

    return plan.Step(
        # `replace` would make addresses from DHCP or router advertisements permanent
        f"{ours} || ip -{address.version} addr add {address.with_prefixlen} dev {port}{nodad}",
        f"the device's IPv{address.version} address on {port}",
        read=f"{ours} || true",  # an interface that the plan creates does not exist yet
        expected=plan.Expectation(f"{address.with_prefixlen}, not tentative", find_problem),
        undo=f"ip -{address.version} addr del {address.with_prefixlen} dev {port}",
        existing=plan.IfExists.KEEP,
        gone_test=make_gone_test(port),
    )


def make_address_restore_step(name: str) -> plan.Step:
    """Return the step whose rollback restores the IPv6 addresses and routes of an interface."""
    addresses = (
        f"ip -o -6 addr show dev {name} permanent 2>/dev/null | sed -e 's/.* inet6 /address /' "
        "-e 's/ *\\\\.*//; s/ tentative//; s/ dadfailed//; s/ stable-privacy//' "
        "-e 's/ deprecated/ preferred_lft 0/'"
    )
    routes = (
        "ip -o -6 route show table all | sed -e 's/\\\\//g; s/ linkdown//g; s/ dead//g' "
        f"-e 's/.*/route & /' | grep -F ' dev {name} ' | "
        "grep -v -e ' proto kernel ' -e ' proto ra ' -e ' expires '"
    )
    restore = (
        "printf '%s\\n' {old} | while read what net rest; do case $what in\n"
        f"address) ip -o -6 addr show dev {name} to ${{net%/*}} | grep -q . || "
        f"ip -6 addr add $net $rest dev {name};;\n"
        "route) ip -6 route replace $net $rest;;\nesac; done"
    )
    why = f"IPv6 addresses of {name}, and routes through it"
    read, gone_test = f"{addresses}; {routes}; true", make_gone_test(name)
    return plan.Step("true", why, read=read, undo=restore, gone_test=gone_test)


def make_neighbors_step(entries: Mapping[Address, str], port: str) -> plan.Step:
    """Return the step that adds permanent neighbor entries, which need no resolution."""
    lines = [f"neigh replace {a} lladdr {m} dev {port} nud permanent" for a, m in entries.items()]
    restore = (
        f"ip -force -batch -\nprintf '%s\\n' {{old}} | while read a l m s; do "
        f'[ "$l" != lladdr ] || ip neigh replace $a lladdr $m dev {port} nud permanent; done; true'
    )
    expected = {(str(a), "lladdr", m.lower()) for a, m in entries.items()}
    return plan.Step(
        "ip -batch -",
        f"static neighbor entries for the tester's hosts on {port}",
        text="\n".join(lines) + "\n",
        read=f"ip neigh show dev {port} nud permanent || true",
        expected=plan.expect_output(
            lambda out: expected <= {tuple(line.lower().split()[:3]) for line in out.splitlines()},
            f"{len(entries)} permanent",
        ),
        undo=restore,
        # the first entry that does not exist would end `ip -force -batch`
        undo_text="".join(
            f"{add}\nneigh del {a} dev {port}\n" for a, add in zip(entries, lines, strict=True)
        ),
        gone_test=make_gone_test(port),
    )


def make_routes_step(entries: Mapping[str, str], why: str) -> plan.Step:
    """Return the step that adds routes; ``entries`` maps prefixes to ``[via ADDRESS] dev PORT``."""
    routes = [f"{net} {to} proto {ROUTE_PROTOCOL}" for net, to in entries.items()]
    sample = list(entries)[:MAX_CHECKED_ROUTES]

    def find_problem(output: str) -> str | None:
        rows = [line.partition(" ") for line in output.splitlines()]
        for net in sample:
            network, to = ip_network(net), entries[net]
            name = str(network[0] if network.num_addresses == 1 else network)
            name = name if network.prefixlen else "default"
            own = "\n".join(rest for first, _, rest in rows if first == name)
            if plan.find_line(own, to, f"proto {ROUTE_PROTOCOL}") is None:
                return f"the route to {net} {to} is missing"
        return None

    return make_object_step(
        "ip -batch -",
        "ip -force -batch - 2>/dev/null\ntrue",
        why,
        text="\n".join(f"route add {route}" for route in routes) + "\n",
        undo_text="".join(f"route del {route}\n" for route in routes),
        read="; ".join(f"ip -{ip_network(net).version} route show exact {net}" for net in sample),
        expected=plan.Expectation(f"{len(entries)} of v6t (proto {ROUTE_PROTOCOL})", find_problem),
    )


def make_side_steps(side: LinkIntent, port: str, neighbor_mode: str) -> list[plan.Step]:
    """Return the steps that add the addresses, neighbors and routes of one side."""
    steps = [make_address_step(address, port) for address in side.addresses]
    entries = {} if neighbor_mode == "resolved" else dict(side.neighbors)
    routes = {str(net): f"via {via} dev {port}" for net, via in side.routes.items()}
    if neighbor_mode == "gateway" and len(entries) > 2:
        entries, more = _choose_gateways(entries)
        routes.update({net: f"via {via} dev {port}" for net, via in more.items()})
    if entries:
        steps.append(make_neighbors_step(entries, port))
    if routes:
        steps.append(make_routes_step(routes, f"to the test hosts behind {port}"))
    return steps


def _choose_gateways(
    entries: Mapping[Address, str],
) -> tuple[dict[Address, str], dict[str, Address]]:
    """Return one neighbor of each IP version, and routes via it to all other neighbors."""
    gateways: dict[Address, str] = {}
    routes: dict[str, Address] = {}
    for version in (4, 6):
        hosts = [host for host in entries if host.version == version]
        gateways.update({host: entries[host] for host in hosts[:1]})
        singles: list[Any] = [ip_network(host) for host in hosts[1:]]
        routes.update({str(net): hosts[0] for net in collapse_addresses(singles)})
    return gateways, routes
