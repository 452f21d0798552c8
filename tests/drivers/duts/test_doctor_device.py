"""``v6t doctor`` with a remote device: checks without changes, and safe output."""

import json

from .support import DUMMY, over_ssh

pytestmark = over_ssh
ELSEWHERE = {"kind": "trex", "options": {"start": "never", "trex_dir": "/nowhere"}}


def write_testbed(site, driver="linux-router", **options):
    path = site.testbed(driver, **options)
    path.write_text(json.dumps({**json.loads(path.read_text()), "tester": ELSEWHERE}))
    return path


def find_device_findings(site, path, *words):
    # status 3: this TRex does not exist
    output = site.v6t("doctor", "--testbed", path, "--json", *words, status=3)
    return [(f["state"], f["text"]) for f in json.loads(output) if f["what"] == "device"]


def test_a_device_that_can_be_used(site):
    before = site.state()
    rows = find_device_findings(site, write_testbed(site), "--plugin", "ipv4-router")
    assert {state for state, _ in rows} == {"ok"}
    texts = "\n".join(text for _, text in rows)
    assert "logged in" in texts
    assert "Linux" in texts
    assert "not touched: " in texts
    assert "mgmt (" in texts
    assert "configured as ipv4-router" in texts
    assert site.state() == before


def test_a_device_that_cannot(site):
    assert "MAC" in find_device_findings(site, write_testbed(site, left="right-cable"))[-1][1]
    rows = find_device_findings(site, write_testbed(site, left="mgmt"))
    assert rows[-1][0] == "missing"
    assert "left interface mgmt" in rows[-1][1]
    path = write_testbed(site, "nftables", ssh={"port": 9})
    ((state, text),) = find_device_findings(site, path)
    assert state == "missing"
    assert "cannot be reached" in text


def test_locked_or_configured_device_gives_notes(site):
    path = write_testbed(site, "command", base=False, steps=[DUMMY], undo_after_s=0)
    site.v6t("dut", "commit", "--testbed", path, "--plugin", "ipv4-router")
    rows = find_device_findings(site, path)
    assert "note" in {state for state, _ in rows}, rows
    site.v6t("dut", "rollback", "--testbed", path)


def commit_output(site, command):
    """Return the output of a commit whose step runs a command that fails."""
    step = {"command": command, "why": "a step", "undo": "", "deadline_s": 60}
    path = site.testbed("command", base=False, steps=[step])
    return site.v6t("dut", "commit", "--testbed", path, "--plugin", "ipv4-router", status=4)


def test_device_output_cannot_control_the_terminal(site):
    """A device prints escape sequences that rename the window and clear the screen."""
    output = commit_output(site, "printf '\\033]0;pwned\\007\\033[2J\\302\\2332J' >&2; exit 3")
    assert "\\x1b]0;pwned\\x07\\x1b[2J" in output
    assert not any(c in output for c in "\x1b\x07\x9b")


def test_endless_device_output_is_rejected(site):
    assert "32 MiB" in commit_output(site, "yes")
