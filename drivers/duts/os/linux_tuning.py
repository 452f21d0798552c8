"""Offloads, receive hashing, queues, cores and clock of a Linux device."""

import re

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.drivers.duts.os.linux import make_gone_test
from v6t.drivers.duts.plan import Expectation, Step, expect_only_words, expect_output
from v6t.drivers.duts.steps import make_value_step

# Names of offloads in the output of ``ethtool -k``, by their names in ``ethtool -K``.
_OFFLOADS = {
    "gro": "generic-receive-offload", "lro": "large-receive-offload",
    "gso": "generic-segmentation-offload", "tso": "tcp-segmentation-offload",
}  # fmt: skip
# Fields of the receive hash in the output of ``ethtool -n``, by their letters in ``ethtool -N``.
_HASH_FIELDS = {
    "s": "IP SA", "d": "IP DA", "f": "L4 bytes 0 & 1", "n": "L4 bytes 2 & 3",
    "m": "L2DA", "v": "VLAN tag", "t": "L3 proto",
}  # fmt: skip
_FLOW_KINDS = ("udp4", "udp6")  # kinds of flows whose receive hash is configured
_CPU_DIRECTORY = "/sys/devices/system/cpu"  # directory of the kernel's files on CPU cores


def get_survey_commands(options: DutOptions) -> dict[str, str]:
    """Return the commands that print processor, clock and interfaces, by section name."""
    commands = {
        "processor": "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1",
        "smt": f"cat {_CPU_DIRECTORY}/smt/active",
        "clock": f"cd {_CPU_DIRECTORY}; grep -H . cpu0/cpufreq/scaling_driver cpu0/cpufreq/scaling_governor "
        "cpu0/cpufreq/scaling_min_freq cpu0/cpufreq/scaling_max_freq intel_pstate/no_turbo "
        "cpufreq/boost",
        # only these parameters: the whole line may contain private data
        "boot_line": "tr ' ' '\\n' </proc/cmdline | grep -E '^(isolcpus|nohz_full|rcu_nocbs|"
        "maxcpus|nosmt|mitigations|intel_pstate|iommu|intel_iommu|hugepages|default_hugepagesz)'",
    }
    for side in ("left", "right"):
        name = getattr(options, side)
        commands[f"nic_{side}"] = f"ethtool -i {name}; cat /sys/class/net/{name}/device/numa_node"
        shown = ("generic-", "large-", "tcp-", "rx-checksumming", "tx-checksumming")
        patterns = " ".join(f"-e ^{word}" for word in shown)
        commands[f"offloads_{side}"] = f"ethtool -k {name} | grep {patterns}"
        commands[f"queues_{side}"] = f"ethtool -l {name}"
        hashes = [f"ethtool -n {name} rx-flow-hash {kind}" for kind in _FLOW_KINDS]
        commands[f"rss_{side}"] = "; ".join(hashes)
    return commands


def make_tuning_steps(options: LinuxOptions, facts: Facts) -> list[Step]:
    """Return the steps that apply the tuning options."""
    names = (options.left, options.right)
    steps: list[Step] = []
    if options.rss or options.queues:
        facts.require_program("ethtool", "ethtool")
    if options.offloads == "off" and "ethtool" in facts.programs:
        steps += [_make_offloads_step(name) for name in names]
    if options.queues:
        steps += [_make_queues_step(name, options.queues) for name in names]
    if options.rss:
        steps += [_make_hash_fields_step(n, k, options.rss) for n in names for k in _FLOW_KINDS]
    if options.rps:
        steps += [_make_packet_steering_step(name, options.rps) for name in names]
    if options.cores:
        steps.append(_make_online_cores_step(options.cores))
    clock = {"scaling_governor": options.governor}
    if options.clock_khz:
        clock |= dict.fromkeys(("scaling_max_freq", "scaling_min_freq"), str(options.clock_khz))
    return steps + [_make_clock_step(name, value) for name, value in clock.items() if value]


def _make_offloads_step(name: str) -> Step:
    patterns = "".join(f'/^{long}:/{{n="{short}"}} ' for short, long in _OFFLOADS.items())
    return Step(
        f"ethtool -K {name} gro off lro off gso off tso off 2>/dev/null || true",
        f"offloads of {name} merge and split the frames that are measured",
        read=f"ethtool -k {name} | awk -F': ' '{patterns}"
        'n{split($2,v," "); if ($2 !~ /fixed/) print n, v[1]; n=""}\'',
        expected=expect_output(lambda out: not re.search(r"(?m) on$", out), "no offload on"),
        undo=f"ethtool -K {name} {{words}} 2>/dev/null || true",
        gone_test=make_gone_test(name),
    )


def _make_queues_step(name: str, count: int) -> Step:
    write, gone_test = f"ethtool -L {name} combined VALUE", make_gone_test(name)
    read = f"ethtool -l {name} | awk '/^Current/{{c=1}} c && /^Combined:/{{print $2}}'"
    why = f"receive queues of {name}, each for a core"
    return make_value_step(write, count, why, read=read, gone_test=gone_test)


def _make_hash_fields_step(name: str, kind: str, fields: str) -> Step:
    words = _HASH_FIELDS.items()
    letters = "".join(f'/^{text}( |$)/{{printf "{letter}"}} ' for letter, text in words)
    expected = set(fields) & set(_HASH_FIELDS)
    return Step(
        f"ethtool -N {name} rx-flow-hash {kind} {fields}",
        f"{kind} flows spread over the receive queues of {name} by these fields",
        read=f"ethtool -n {name} rx-flow-hash {kind} | awk '{letters}'",
        expected=expect_output(lambda out: set(out.strip()) == expected, f"hash over {fields}"),
        undo=f"[ -z {{old}} ] || ethtool -N {name} rx-flow-hash {kind} {{old}}",
        gone_test=make_gone_test(name),
    )


def _make_packet_steering_step(name: str, mask: str) -> Step:
    queues = f"/sys/class/net/{name}/queues/rx-*/rps_cpus"

    def is_mask_set(output: str) -> bool:
        masks = {each.replace(",", "").lstrip("0") for each in output.split()}
        return masks == {mask.replace(",", "").lstrip("0")}

    why, expected = f"receive packet steering of {name}", expect_output(is_mask_set, mask)
    return _make_files_step("q", queues, mask, why, expected, gone_test=make_gone_test(name))


def _make_files_step(
    variable: str, files: str, value: str, why: str, expected: Expectation, gone_test: str = ""
) -> Step:
    return Step(
        f"for {variable} in {files}; do echo {value} >${variable} || exit 1; done",
        why,
        read=f"cat {files}",
        expected=expected,
        undo=f"set -- {{words}}; for {variable} in {files}; do echo $1 >${variable}; shift; done",
        gone_test=gone_test,
    )


def _make_online_cores_step(count: int) -> Step:
    files = [f"{_CPU_DIRECTORY}/cpu{number}/online" for number in range(1, count)]
    return Step(
        f"for c in {_CPU_DIRECTORY}/cpu[1-9]*; do n=${{c##*/cpu}}; "
        f"if [ $n -lt {count} ]; then echo 1 >$c/online; else echo 0 >$c/online; fi; done",
        f"{count} cores",
        # the first core has no such file; its directory shows that the read works
        read=f"ls -d {_CPU_DIRECTORY}/cpu0; grep -l 1 {_CPU_DIRECTORY}/cpu[1-9]*/online 2>/dev/null || true",
        expected=expect_only_words([f"{_CPU_DIRECTORY}/cpu0", *files], f"{count} online"),
        undo=f'for c in {_CPU_DIRECTORY}/cpu[1-9]*; do f=$c/online; case " "{{old}}" " in '
        "*$f*) echo 1 >$f;; *) echo 0 >$f;; esac; done",
    )


def _make_clock_step(setting: str, value: str) -> Step:
    files = f"{_CPU_DIRECTORY}/cpu[0-9]*/cpufreq/{setting}"
    why = f"clock of every core: {setting}"
    return _make_files_step("f", files, value, why, expect_only_words([value]))
