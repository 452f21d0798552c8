"""Checks of a TRex tester, each finding with its fix: for ``v6t doctor``, here and on another host."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from v6t.base.errors import EnvironmentLacking, TesterError, UsageError, V6tError
from v6t.drivers.tester_kind import Finding, State
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.drivers.trex import channel
from v6t.drivers.trex.channel import ClientWorker, parse_answer, start_client
from v6t.drivers.trex.client.host import is_reachable
from v6t.drivers.trex.client.stats import ServerFacts
from v6t.drivers.trex.interfaces import find_device, is_pci
from v6t.drivers.trex.options import TrexOptions

DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
_PAGE_SIZE_NAMES = {2048: "2M", 1048576: "1G"}  # By size [KiB]
_GRACE_S = 5.0  # Time for a command over SSH beyond that for logging in


def examine(options: TrexOptions, *, must_start: bool = False) -> Iterator[Finding]:
    """Examine installation, host, client and server; ``must_start``: also whether v6t can start one."""
    if options.ssh:
        yield from _examine_remote(options, options.ssh)
        return
    try:
        installation = channel.find_installation(options.trex_dir)
    except UsageError as exc:
        yield "TRex", "missing", f"{exc.message}; {exc.hint}"
        return
    except EnvironmentLacking:
        state: State = "missing" if must_start or options != type(options)() else "note"
        text = "none found (trex_dir, TREX_DIR, /opt/trex/v*); the embedded tester does not need it"
        yield "TRex", state, text
        return
    yield "TRex", "ok", f"{installation}, version {channel.read_version(installation)}"
    with closing(ClientWorker(sys.executable)) as here:
        yield from examine_host(here, options)
    try:
        worker, hello = start_client(installation, options.python, ClientWorker, 60)
    except EnvironmentLacking as exc:
        yield "TRex client", "missing", f"{exc.message}; {exc.hint}"
        return
    with closing(worker):
        yield "TRex client", "ok", f"imported by {hello['executable']} (Python {hello['python']})"
        yield from _examine_server(worker, options, must_start=must_start)


def _examine_server(
    worker: ClientWorker, options: TrexOptions, *, must_start: bool = False
) -> Iterator[Finding]:
    """Examine a running server, or whether v6t can start one."""
    where = f"{options.server}:{options.rpc_port}"
    starts = (must_start or options.ssh is not None) and not options.lab
    fix = find_start_fix(options) if starts else ""
    state: State = "missing" if fix else "note"
    absent = "TRex server", state, f"none answers at {where}: {fix or 'v6t starts one'}"
    if not options.ssh and not is_reachable((options.server, options.rpc_port)):
        yield absent
        if starts and not fix:
            yield from examine_interfaces(worker, options)
        return
    try:
        answer = worker.ask("connect", **options.address)
        flags = worker.ask("read_server_flags")
    except TesterError as exc:
        if options.ssh and isinstance(exc, channel.WorkerError) and exc.kind == "connect":
            yield absent
            return
        text = f"{where} answers, but not this client: {exc.message}; "
        yield "TRex server", "missing", f"{text}client and server must be of one installation"
        return
    facts = parse_answer(ServerFacts, answer)
    yield from describe_server(where, facts)
    if flags is not None:
        yield from check_flags(flags, has_several_cores=facts.cores_per_port > 1)


def find_start_fix(options: TrexOptions) -> str:
    """Return what the user has to do because v6t cannot start a server; empty if it can."""
    if options.start == "never":
        return "start one with `./t-rex-64 -i --software --hdrh -c 1`, or set start: auto"
    if options.is_elsewhere:
        return "start one there, or set ssh: user@host"
    if options.all_interfaces is None:
        return "name its interfaces (tester.options.interfaces), start it, or try it with lab: true"
    return ""


def check_flags(flags: Sequence[str], *, has_several_cores: bool) -> Iterator[Finding]:
    """Check whether a server was started so that delays and trailers work."""
    needs = {"--software": "counting by trailer", "--hdrh": "delays"}
    if has_several_cores:  # TRex does not add up the histograms of several
        needs = {"--software": "comparing frames and delays"}
    for flag, use in needs.items():
        if flag in flags:
            yield flag, "ok", f"{use} possible"
        else:
            yield flag, "note", f"not given: no {use}; restart the server with {flag}"


def describe_server(where: str, facts: ServerFacts) -> Iterator[Finding]:
    """Yield findings about a server and its ports."""
    is_stl = facts.mode == "STL"
    fix = "" if is_stl else "; v6t needs the stateless mode: restart it without --astf"
    cores = f"{facts.cores} data path core{'s' if facts.cores != 1 else ''}"
    version = facts.version.get("version") or "version unknown"
    text = f"{where}, {version}, mode {facts.mode or 'unknown'}, {cores}{fix}"
    yield "TRex server", "ok" if is_stl else "missing", text
    if facts.cores_per_port > 1:
        text = (
            "several data path cores: by port counters; delays of one core's stream, with memif or "
        )
        yield "counting", "note", f"{text}--software; `-c 1 --software --hdrh` counts by trailer"
    for port in facts.ports:
        text = f"{port.driver}, {port.mac}, link {port.link}, {port.speed} Gbit/s"
        if isinstance(port.numa, int) and port.numa >= 0:
            text += f", NUMA node {port.numa}"
        if port.owner:
            text += f"; taken by {port.owner}: wait, or force: true"
        if port.link == "DOWN":
            text += "; no link: check cable and device"
        state: State = "missing" if port.link == "DOWN" else "note" if port.owner else "ok"
        yield f"port {port.index}", state, text


def _examine_remote(options: TrexOptions, ssh: SshOptions) -> Iterator[Finding]:
    if not options.trex_dir:
        yield "TRex", "missing", "ssh needs trex_dir, the directory of TRex on that host"
        return
    host = ssh.text
    try:
        remote = options.remote or SshClient(ssh)
        done = subprocess.run(
            remote.make_command(["test", "-e", f"{options.trex_dir}/t-rex-64"]),
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            timeout=ssh.connect_deadline_s + _GRACE_S,
        )  # fmt: skip
    except V6tError as exc:
        yield "ssh", "missing", f"{host}: " + "; ".join(filter(None, (exc.message, exc.hint)))
        return
    except subprocess.TimeoutExpired as exc:
        yield "ssh", "missing", f"{host}: {exc}"
        return
    if done.returncode == 255:
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        yield "ssh", "missing", f"{host}: {reason}; `ssh {host} true` must work without a prompt"
        return
    yield "ssh", "ok", f"logged in as {host}"
    if done.returncode:
        yield "TRex", "missing", f"{options.trex_dir}/t-rex-64 does not exist on {host}"
        return
    yield "TRex", "ok", f"{host}:{options.trex_dir}"
    try:
        with closing(ClientWorker(options.python or "python3", remote=remote)) as worker:
            yield from examine_host(worker, options)
            yield from examine_interfaces(worker, options)
            hello = worker.ask("import_client", options.start_deadline_s, trex_dir=options.trex_dir)
            yield "TRex client", "ok", f"Python {hello['python']} there imports it"
            # the kernel does not list the addresses of a server's ports: the server is queried
            yield from _examine_server(worker, options)
    except TesterError as exc:
        fix = "name a Python 3.8 to 3.13 of that host with the option python"
        yield "TRex client", "missing", f"{exc.message}; {fix}"


def read_host_facts(worker: ClientWorker, options: TrexOptions) -> Mapping[str, Any]:
    """Read facts about the worker's host; see ``examine_host`` of the worker."""
    named = [find_device(name) for name in options.all_interfaces or ()]
    arguments = {"interfaces": named, "port": options.rpc_port}
    facts: Mapping[str, Any] = worker.ask("examine_host", options.start_deadline_s, **arguments)
    return facts


def examine_host(worker: ClientWorker, options: TrexOptions) -> Iterator[Finding]:
    """Check hugepages, programs, clock and open ports of the host that a worker runs on."""
    facts = read_host_facts(worker, options)
    has_nics = any(is_pci(n) for n in options.all_interfaces or ())
    yield check_hugepages(facts, are_needed=has_nics)
    if has_nics:
        yield check_programs(facts)
    yield check_clock(facts["clock"])
    yield check_port_isolation(facts, options)


def examine_interfaces(worker: ClientWorker, options: TrexOptions) -> Iterator[Finding]:
    """Check that the interfaces of a server exist on the worker's host."""
    facts = read_host_facts(worker, options)["interfaces"]
    for name in options.all_interfaces or ():
        device = facts[find_device(name)]
        if is_pci(name):
            state, text = check_nic(device, options.socket)
        else:
            state, text = device or ("ok", "made by TRex")
        yield f"interface {name}", state, text


def find_missing_mount(facts: Mapping[str, Any]) -> str:
    """Return the command that mounts hugepages so that TRex can use them; empty: none is needed.

    DPDK takes pages of a size only through a mounted hugetlbfs of that size.
    """
    sizes = [size for size, total in facts.get("hugepages", ()) if total]
    if not sizes or set(sizes).intersection(facts["hugetlbfs"]):
        return ""
    page = _PAGE_SIZE_NAMES.get(sizes[0], f"{sizes[0]}K")
    mount = f"mount -t hugetlbfs -o pagesize={page} hugetlbfs /dev/hugepages"
    return f"mkdir -p /dev/hugepages && {mount}"


def check_hugepages(facts: Mapping[str, Any], *, are_needed: bool) -> Finding:
    """Check that there are hugepages, and that they are mounted."""
    pages = [(_PAGE_SIZE_NAMES.get(k, f"{k}K"), n) for k, n in facts["hugepages"] if n]
    if not (sizes := ", ".join(f"{n} of {size}" for size, n in pages)):
        return "hugepages", "note", "none; only NICs need them (sysctl vm.nr_hugepages=1024)"
    if mount := find_missing_mount(facts):
        problem = "no hugetlbfs of that size is mounted: TRex with NICs ends at once"
        return "hugepages", "missing" if are_needed else "note", f"{sizes}, but {problem}; {mount}"
    return "hugepages", "ok", sizes


def check_programs(facts: Mapping[str, Any]) -> Finding:
    """Check that the programs with which TRex's wrapper finds NICs are installed."""
    packages = {"lspci": "pciutils", "modprobe": "kmod"}
    if not (missing := [name for name in packages if not facts[name]]):
        return "programs for NICs", "ok", " and ".join(packages)
    names, wanted = " and ".join(missing), " ".join(packages[name] for name in missing)
    text = f"t-rex-64 looks for NICs with {names}, not found; apt-get install {wanted}"
    # a NIC that has its driver of DPDK already needs no module to be loaded
    return "programs for NICs", "missing" if "lspci" in missing else "note", text


def check_clock(name: str) -> Finding:
    """Check that the kernel's clock source is the time stamp counter."""
    if name == "tsc":
        return "clock", "ok", "time stamp counter"
    text = f"the kernel uses {name}, not TRex's counter tsc: compare delays with a loopback run"
    return "clock", "note", text if name else "the kernel's clock source is unknown"


def check_port_isolation(facts: Mapping[str, Any], options: TrexOptions) -> Finding:
    """Check that other hosts cannot reach the server's ports."""
    subject, ports = "TRex's ports", f"{options.rpc_port} and {options.pub_port}"
    if options.lab:
        return subject, "ok", "in the lab's namespace: no other host reaches them"
    reason, trouble = "TRex has no authentication", facts["nft_problem"]
    is_running = options.start == "auto" and facts["served"]
    if is_running or options.start == "never" or options.is_elsewhere:
        text = "v6t closes only those of a server that it starts; any host that reaches yours can"
        return subject, "note", f"{text} command it ({ports}): {reason}"
    if options.fence and facts["nft"] and not trouble:
        text = "closed to other hosts (nftables); those of your own server are open"
        return subject, "ok", f"{ports} of a server that v6t starts are {text}: {reason}"
    fix = f"repair nft ({trouble})" if trouble else "apt-get install nftables"
    fix = f"{fix}, v6t then closes them" if options.fence else "fence is false"
    text = f"{ports} are open on all addresses, and {reason}: {fix}"
    return subject, "note", f"{text}, or keep the host in a separate network"


def check_nic(facts: Mapping[str, Any] | None, socket_id: int) -> tuple[State, str]:
    """Check the driver of a NIC, and that its NUMA node is that of the options."""
    if facts is None:
        return "missing", "no such PCI device exists; `lspci` lists them"
    driver, node = facts["driver"], facts["numa"]
    if node.isdigit() and int(node) != socket_id:
        return "note", f"driver {driver}, NUMA node {node}, but socket is {socket_id}"
    if driver in DPDK_DRIVERS:
        return "ok", f"driver {driver}: TRex's already, and it stays there"
    name = f" ({', '.join(facts['names'])})" if facts["names"] else ""
    return "ok", f"driver {driver}{name}; t-rex-64 binds it, v6t gives it back at the end"
