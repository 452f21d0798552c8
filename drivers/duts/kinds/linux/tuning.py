"""Offloads, receive hashing, queues, cores and clock of a Linux device, each read back."""

from __future__ import annotations

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Intent, Step, checked, equals, shown
from v6t.drivers.duts.programs import lacking

_OFFLOADS = {
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "gso": "generic-segmentation-offload",
    "tso": "tcp-segmentation-offload",
}
_HASH_WORDS = {
    "s": "IP SA", "d": "IP DA", "f": "L4 bytes 0 & 1", "n": "L4 bytes 2 & 3",
    "m": "L2DA", "v": "VLAN tag", "t": "L3 proto",
}  # fmt: skip
_CPU = "/sys/devices/system/cpu"


def gone(name: str) -> str:
    """Shell line that succeeds if there is no such interface any more."""
    return f"! ip link show dev {name} >/dev/null 2>&1"


def survey(options: LinuxOptions) -> dict[str, str]:
    """Commands that show processor, clock and interfaces, for the record (GEN-28)."""
    commands = {
        "processor": "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1",
        "smt": f"cat {_CPU}/smt/active",
        "clock": f"cd {_CPU}; grep -H . cpu0/cpufreq/scaling_driver cpu0/cpufreq/scaling_governor "
        "cpu0/cpufreq/scaling_min_freq cpu0/cpufreq/scaling_max_freq intel_pstate/no_turbo "
        "cpufreq/boost",
        # single words of it: the whole may hold what is nobody's business
        "boot_line": "tr ' ' '\\n' </proc/cmdline | grep -E '^(isolcpus|nohz_full|rcu_nocbs|"
        "maxcpus|nosmt|mitigations|intel_pstate|iommu|intel_iommu|hugepages|default_hugepagesz)'",
    }
    for side in ("left", "right"):
        name = getattr(options, side)
        commands[f"nic_{side}"] = f"ethtool -i {name}; cat /sys/class/net/{name}/device/numa_node"
        commands[f"offloads_{side}"] = (
            f"ethtool -k {name} | grep -e ^generic- -e ^large- -e ^tcp- -e ^rx-checksumming "
            "-e ^tx-checksumming"
        )
        commands[f"queues_{side}"] = f"ethtool -l {name}"
        commands[f"rss_{side}"] = (
            f"ethtool -n {name} rx-flow-hash udp4; ethtool -n {name} rx-flow-hash udp6"
        )
    return commands


def steps(options: LinuxOptions, intent: Intent, facts: Facts) -> list[Step]:
    """What the options ask for.

    Raises:
        DutError: the program that does it is not there.
    """
    names = (options.left, options.right)
    all_steps: list[Step] = []
    wanted = options.rss or options.queues
    if wanted and "ethtool" not in facts.programs:
        raise lacking("ethtool", "ethtool")
    if options.offloads == "off" and "ethtool" in facts.programs:
        all_steps += [_offloads(name) for name in names]
    if options.queues:
        all_steps += [_queues(name, options.queues) for name in names]
    if options.rss:
        all_steps += [_rss(name, kind, options.rss) for name in names for kind in ("udp4", "udp6")]
    if options.rps:
        all_steps += [_rps(name, options.rps) for name in names]
    if options.cores:
        all_steps.append(_cores(options.cores))
    if options.governor or options.clock_khz:
        all_steps += _clock(options.governor, options.clock_khz)
    return all_steps


def _offloads(name: str) -> Step:
    patterns = "".join(f'/^{long}:/{{n="{short}"}} ' for short, long in _OFFLOADS.items())
    before = (
        f"ethtool -k {name} | awk -F': ' '{patterns}"
        'n{split($2,v," "); if ($2 !~ /fixed/) print n, v[1]; n=""}\''
    )

    def checker(output: str) -> str | None:
        on = [line for line in output.splitlines() if line.endswith(" on")]
        return f"still on: {', '.join(on)}" if on else None

    return Step(
        f"ethtool -K {name} gro off lro off gso off tso off 2>/dev/null || true",
        "offloads merge and split the frames that are measured",
        undo=f"ethtool -K {name} {{words}} 2>/dev/null || true",
        before=before,
        gone=gone(name),
        check=checked(before, checker, "no offload on"),
    )


def _queues(name: str, count: int) -> Step:
    current = f"ethtool -l {name} | awk '/^Current/{{c=1}} c && /^Combined:/{{print $2}}'"
    return Step(
        f"ethtool -L {name} combined {count}",
        "receive queues, each for a core",
        undo=f"ethtool -L {name} combined {{words}}",
        before=current,
        gone=gone(name),
        check=checked(
            current,
            lambda out: None if out.strip() == str(count) else f"{shown(out)} queues",
            f"{count}",
        ),
    )


def _rss(name: str, kind: str, fields: str) -> Step:
    """``ethtool -N`` says success when it fails: only ``-n`` tells."""
    show = f"ethtool -n {name} rx-flow-hash {kind}"
    letters = "".join(f'/{text}/{{printf "{letter}"}} ' for letter, text in _HASH_WORDS.items())
    before = f"{show} | awk '{letters}'"

    def checker(output: str) -> str | None:
        lines = [line.partition(" [")[0].strip() for line in output.splitlines()]
        found = {letter for letter, text in _HASH_WORDS.items() if text in lines}
        if found == set(fields) & set(_HASH_WORDS):
            return None
        over = ", ".join(_HASH_WORDS[letter] for letter in _HASH_WORDS if letter in found)
        return f"{name} hashes {kind} over {over or 'nothing'}"

    return Step(
        f"ethtool -N {name} rx-flow-hash {kind} {fields}",
        "flows spread over the receive queues by these fields",
        undo=f"[ -z {{old}} ] || ethtool -N {name} rx-flow-hash {kind} {{old}}",
        before=before,
        gone=gone(name),
        check=checked(show, checker, f"hash over {fields}"),
    )


def _rps(name: str, mask: str) -> Step:
    queues = f"/sys/class/net/{name}/queues/rx-*/rps_cpus"
    plain = mask.replace(",", "").lstrip("0") or "0"

    def checker(output: str) -> str | None:
        masks = [line.replace(",", "").lstrip("0") or "0" for line in output.split()]
        return None if masks and set(masks) == {plain} else f"masks are {shown(output)}"

    return Step(
        f"for q in {queues}; do echo {mask} >$q || exit 1; done",
        "receive packet steering",
        undo=f"set -- {{words}}; for q in {queues}; do echo $1 >$q; shift; done",
        before=f"cat {queues}",
        gone=gone(name),
        check=checked(f"cat {queues}", checker, mask),
    )


def _cores(count: int) -> Step:
    online = f"grep -l 1 {_CPU}/cpu[1-9]*/online 2>/dev/null || true"

    def checker(output: str) -> str | None:
        ranges = (part.partition("-") for part in output.strip().split(",") if part)
        cores = [n for first, _, last in ranges for n in range(int(first), int(last or first) + 1)]
        if cores == list(range(count)):
            return None
        return f"the first {count} cores are to be online, and these are: {shown(output)}"

    return Step(
        f"for c in {_CPU}/cpu[1-9]*; do n=${{c##*/cpu}}; "
        f"if [ $n -lt {count} ]; then echo 1 >$c/online; else echo 0 >$c/online; fi; done",
        f"{count} cores",
        undo=f'for c in {_CPU}/cpu[1-9]*; do f=$c/online; case " "{{old}}" " in '
        "*$f*) echo 1 >$f;; *) echo 0 >$f;; esac; done",
        before=online,
        check=checked(f"cat {_CPU}/online", checker, f"{count} online"),
    )


def _clock(governor: str, khz: int) -> list[Step]:
    all_steps = []
    wanted = [("scaling_governor", governor)] if governor else []
    if khz:
        wanted += [("scaling_max_freq", str(khz)), ("scaling_min_freq", str(khz))]
    for name, value in wanted:
        files = f"{_CPU}/cpu[0-9]*/cpufreq/{name}"
        all_steps.append(
            Step(
                f"for f in {files}; do echo {value} >$f || exit 1; done",
                f"clock of every core: {name}",
                undo=f"set -- {{words}}; for f in {files}; do echo $1 >$f; shift; done",
                before=f"cat {files}",
                check=equals(f"cat {files} | sort -u", value),
            )
        )
    return all_steps
