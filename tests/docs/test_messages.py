"""The wording of errors: the only place where tests compare sentences.

`pytest tests/docs/test_messages.py --snapshot-update` stores new wording; read the difference.
"""

import shlex

from v6t.tests.core.support import read_dir, v6t

FILES = {
    "tabs.yaml": "plugin: mape-br\nparams:\n\tces: 5\n",
    "typo.yaml": "plugin: mape-br\nprocedure:\n  repititions: 3\n",
    "list.yaml": "- mape-br\n",
    "number.yaml": "plugin: mape-br\nparams:\n  br_address: 12\n",
    "long.yaml": "x" * 300_000,
    "control.yaml": "label: \x00\n",
    "option.yaml": "tester:\n  kind: trex\n  options: {corse: 2}\n",
    "mac.yaml": "links:\n  left: {dut_mac: x}\n",
    "rate.yaml": "line_rate: 10X\n",
    "ssh.yaml": "dut: {driver: nftables, options: {left: a, right: b, ssh: {host: 127.0.0.1, port: 1}}}\n",
}  # fmt: skip
RUN = "run --plugin mape-br --tester sim"
COMMANDS = f"""
runn
frob
run --frob
run --plugin mape-bt
run --dut vpp
run nope.yaml
init --plugin nat64
run nat44 --set connections.count=80000
run .
run tabs.yaml
run typo.yaml
run list.yaml
run number.yaml
run long.yaml
run control.yaml
run --plugin siit --dut nftables --dry-run
run --plugin mape-br --tester trex
run --plugin mape-br
dut commit --plugin nat44 --testbed ssh.yaml
dut commit --driver nftables --plugin nat44
{RUN} --tester simm
{RUN} --dut cisco
{RUN} --mode forwards
{RUN} --mode reverse --mode reverse
{RUN} --preset fast
{RUN} --measure thrput
{RUN} --testbed option.yaml
{RUN} --testbed mac.yaml
{RUN} --testbed rate.yaml
{RUN} --set ces
{RUN} --set psid_ofset=1
{RUN} --set psid_offset=x
{RUN} --set psid_offset=17
{RUN} --set rule_ipv6=foo
{RUN} --set rule_ipv6=2001:db8::1/32
{RUN} --set fw_dport.min=70000
{RUN} --set fw_dport.min=9 --set fw_dport.max=3
{RUN} --set ces=8193
{RUN} --set domains=[{{
{RUN} --set-tester capacity_fps=x
{RUN} --frame-size x
{RUN} --frame-size 103
{RUN} --frame-size 1519
{RUN} --reps 0
{RUN} --reps 1.5
{RUN} --loss-tolerance 1
{RUN} -o full
resume nope
compare nope
campaign
campaign nothing
init --dir /dev/null
calc rate --line-rate x --frame-size 64
compile --plugin mape-br --format x
explain tagz
"""


def test_messages(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREX_DIR", raising=False)
    monkeypatch.setattr("v6t.drivers.trex.channel.DEFAULT_LOCATION", tmp_path)
    monkeypatch.setattr("v6t.drivers.lab.privilege.os.geteuid", lambda: 1000)
    monkeypatch.setattr("v6t.drivers.lab.privilege._try", lambda kind: f"{kind}: not permitted")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    before, shown = read_dir(tmp_path), []
    for line in COMMANDS.strip().splitlines():
        done = v6t(*shlex.split(line))
        shown.append(f"$ v6t {line}\n{done.err}{done.status} [{done.code}]\n")
    assert "\n".join(shown) == snapshot
    assert read_dir(tmp_path) == before
