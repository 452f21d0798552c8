"""What stands between a user and a server on its host: hugepages, clock, interfaces, open ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from v6t.drivers.tester_kind import Finding, State
from v6t.drivers.trex.channel import ClientWorker
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.server_config import full_address, is_pci

DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
_PAGES = {2048: "2M", 1048576: "1G"}


def machine_facts(worker: ClientWorker, options: TrexOptions) -> dict[str, Any]:
    """What the worker's host says of itself; see ``machine`` of the worker."""
    named = [full_address(n) if is_pci(n) else n for n in options.all_interfaces or ()]
    return dict(
        worker.ask(
            "machine",
            deadline_s=options.start_deadline_s,
            interfaces=named,
            port=options.rpc_port,
        )
    )


def examine_machine(worker: ClientWorker, options: TrexOptions) -> Iterator[Finding]:
    """Findings about the host that a worker runs on."""
    facts = machine_facts(worker, options)
    nics = any(is_pci(n) for n in options.all_interfaces or ())
    yield _hugepages(facts, needed=nics)
    if nics:
        yield _binding(facts)
    yield _clock(facts["clock"])
    yield _fence(facts, options)


def examine_interfaces(worker: ClientWorker, options: TrexOptions) -> Iterator[Finding]:
    """Whether the interfaces a server would be started with exist on the worker's host."""
    facts = machine_facts(worker, options)["interfaces"]
    for name in options.all_interfaces or ():
        what = f"interface {name}"
        if name.startswith("--vdev"):
            yield what, "ok", "made by TRex"
        elif is_pci(name):
            yield _pci(what, facts[full_address(name)], options.socket)
        else:
            yield _linux(what, name, facts[name])


def unmounted(facts: dict[str, Any]) -> str:
    """What is to be mounted so that TRex can use the hugepages there are; empty: nothing.

    DPDK takes pages of a size only through a mounted hugetlbfs of that size.
    """
    sizes = [size for size, total in facts["hugepages"] if total]
    mounted = {size for _, size in facts["hugetlbfs"]}
    if not sizes or mounted.intersection(sizes):
        return ""
    page = _PAGES.get(sizes[0], f"{sizes[0]}K")
    return (
        f"mkdir -p /dev/hugepages && mount -t hugetlbfs -o pagesize={page} hugetlbfs /dev/hugepages"
    )


def _hugepages(facts: dict[str, Any], *, needed: bool) -> Finding:
    bad: State = "missing" if needed else "note"
    lines = [f"{n} of {_PAGES.get(size, f'{size}K')}" for size, n in facts["hugepages"] if n]
    if not lines:
        return (
            "hugepages",
            "note",
            "none; NICs need them (sysctl vm.nr_hugepages=1024), Linux interfaces and memif do not",
        )
    mount = unmounted(facts)
    if mount:
        text = (
            f"{', '.join(lines)}, but no hugetlbfs of that size is mounted: TRex with NICs ends at "
        )
        return "hugepages", bad, f"{text}once; {mount}"
    return "hugepages", "ok", ", ".join(lines)


def _binding(facts: dict[str, Any]) -> Finding:
    packages = {"lspci": "pciutils", "modprobe": "kmod"}
    lacking = [name for name in packages if not facts[name]]
    if not lacking:
        return "programs for NICs", "ok", " and ".join(packages)
    names, wanted = " and ".join(lacking), " ".join(packages[name] for name in lacking)
    text = (
        f"TRex's wrapper t-rex-64 looks for NICs with {names}, not found; apt-get install {wanted}"
    )
    # a NIC that has its driver of DPDK already needs no module to be loaded
    return "programs for NICs", "missing" if "lspci" in lacking else "note", text


def _clock(name: str) -> Finding:
    if name == "tsc":
        return "clock", "ok", "time stamp counter"
    if not name:
        return "clock", "note", "the kernel's clock source is unknown"
    return (
        "clock",
        "note",
        f"the kernel uses {name}, not tsc: TRex's time stamps come from a counter the kernel does "
        "not trust here; compare its delays with a loopback run",
    )


def _fence(facts: dict[str, Any], options: TrexOptions) -> Finding:
    what, ports = "TRex's ports", f"{options.rpc_port} and {options.pub_port}"
    if options.lab:
        return what, "ok", "in the lab's namespace: nobody else reaches them"
    others = options.start == "auto" and facts["served"]
    if others or options.start == "never" or options.elsewhere:
        return (
            what,
            "note",
            f"v6t closes only those of a server that it starts; yours is open to all who reach its host, as "
            f"far as v6t knows ({ports}): TRex asks nobody for a password",
        )
    if options.fence and facts["nft"] and not facts["nft_trouble"]:
        return (
            what,
            "ok",
            f"a server that v6t starts is closed to other hosts ({ports}, nftables); one that you "
            "start is open to all who reach its host: TRex asks nobody for a password",
        )
    why = "apt-get install nftables, v6t then closes them"
    if facts["nft_trouble"]:
        why = f"mend nft, which says '{facts['nft_trouble']}', v6t then closes them"
    if not options.fence:
        why = "fence is false"
    return (
        what,
        "note",
        f"{ports} are open on all addresses, and TRex asks nobody for a password: {why}, or keep "
        "the host in a network of its own",
    )


def _pci(what: str, facts: dict[str, Any] | None, socket: int) -> Finding:
    if facts is None:
        return what, "missing", "there is no such PCI device; `lspci` lists them"
    bound, node = facts["driver"], facts["numa"]
    if node.isdigit() and int(node) != socket:
        return what, "note", f"driver {bound}, NUMA node {node}, but socket is {socket}"
    if bound in DPDK_DRIVERS:
        return what, "ok", f"driver {bound}: TRex's already, and it stays there"
    name = f" ({', '.join(facts['names'])})" if facts["names"] else ""
    return (
        what,
        "ok",
        f"driver {bound}{name}; TRex's wrapper t-rex-64 binds it, v6t gives it back at the end",
    )


def _linux(what: str, name: str, facts: dict[str, Any] | None) -> Finding:
    if facts is None:
        return what, "missing", "there is no such interface; `ip -br link` lists them"
    if facts["state"] == "down":
        return what, "note", f"it is down: ip link set {name} up, and check the cable"
    return what, "ok", "through af_packet: one data path core"
