"""Chains of several devices: real and reference parts in the lab, options and errors."""

import os
from contextlib import closing, suppress
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from v6t.base.errors import DutError
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs import dut
from v6t.core.runs.bench import Bench
from v6t.drivers.duts.chain.driver import ChainDriver
from v6t.drivers.duts.chain.session import ChainSession
from v6t.drivers.duts.devices import make_lab_device, make_session
from v6t.drivers.transport.process import NamespaceTransport
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.plugins.nat46 import Nat46
from v6t.tests.core.support import v6t
from v6t.tests.drivers.faketrex import list_descendants
from v6t.tests.drivers.test_stateful_lab import COUNT, USE, StatefulLab
from v6t.tests.expect import expect_error

from . import intents
from .cli_dialects import IOS
from .support import mark_lab_test, needs_device


@mark_lab_test(needs_device("nftables"))
def test_chain_translates_and_counts_connections():
    with StatefulLab("embedded", "dslite-aftr") as lab:
        opened = lab.establish()
        assert opened.sent == opened.learned == opened.validated == opened.sessions == COUNT
        assert opened.duplicate_tuples == 0
        used = lab.use(replace(USE, wait_s=0.3))
        assert used.connections.reused
        for counted in used.directions.values():
            assert counted.count_frames("received") == counted.count_frames("sent") == lab.frames
            assert counted.matched == counted.checked > 0
        tester = lab.bench.open()
        state = tester.device_state()
        assert state.timeout_s > 60
        state.flush()
        assert state.count_sessions() == 0
        assert len(lab.bench.session.verify()) > 10
        report, described = tester._bed.device.report(), lab.bench.describe()["device"]
    parts = intents.make_intent("dslite-aftr").parts
    assert list(report) == list(described["parts"]) == [part.name for part in parts]
    for part in parts:
        text, counters = described["parts"][part.name], report[part.name]
        assert (text["belongs_to"], text["stateful"]) == (part.device, part.stateful)
        assert set(text["counters"]) == set(counters)
        if part.driver == "reference":
            assert counters["forward"]["forwarded"] >= COUNT
        else:
            assert counters["link left"]["rx.packets"] >= COUNT


@mark_lab_test(needs_device("tayga-nftables"))
def test_failed_part_removes_all_other_parts(tmp_path):
    program = tmp_path / "tayga"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    setup = resolve_setup(plugin="ipv4aas", dut_params={"parts.clat.options.program": str(program)})

    def list_child_namespaces():
        namespaces = set()
        for pid in list_descendants(os.getpid()):
            with suppress(OSError):
                namespaces.add(os.readlink(f"/proc/{pid}/ns/net"))
        return namespaces - {os.readlink("/proc/self/ns/net")}

    before = list_child_namespaces()
    with closing(Bench(setup)) as bench, pytest.raises(DutError):
        bench.open()
    assert list_child_namespaces() <= before


def list_parts(variant, options):
    setup = resolve_setup(plugin="ipv4aas", params={"variant": variant}, dut_params=options)
    return setup.driver.get_parts(setup.technology.make_dut_intent())


def test_single_aftr_replaces_softwire_and_nat_parts():
    options = {"parts.aftr.driver": "vpp"}
    parts = [(p.name, p.device, p.driver.name, p.stateful) for p in list_parts("ds-lite", options)]
    assert parts == [("b4", "CE", "reference", False), ("aftr", "PE", "vpp", True)]


def test_part_with_other_driver_has_default_options():
    parts = list_parts("map-e", {"parts.br.driver": "vpp"})
    assert [part.driver.name for part in parts] == ["nftables", "reference", "vpp"]
    # the lab's TAYGA options are not valid for another translator
    options = {"parts.clat.driver": "jool", "parts.plat.options.queue_length": "77"}
    clat, plat = list_parts("464xlat", options)
    assert clat.driver.name == "jool"
    assert (plat.driver.options.queue_length, plat.driver.options.mend_checksums) == (77, True)


def make_intent(variant="464xlat"):
    return intents.make_intent("ipv4aas", variant=variant)


@pytest.mark.parametrize(("variant", "hops"), [
    ("464xlat", 4), ("ds-lite", 1), ("lw4o6", 1), ("map-e", 1), ("map-t", 1)])  # fmt: skip
def test_hop_count_depends_on_parts(variant, hops):
    assert ChainDriver({}).get_header_profile(make_intent(variant)).further_hops == hops


def adapt_oracle(plugin, **drivers):
    """Return the reference translation of a chain whose parts have these drivers."""
    chain = ChainDriver({"parts": {name: {"driver": driver} for name, driver in drivers.items()}})
    return chain.adapt_oracle(plugin, plugin.make_dut_intent())


@pytest.mark.parametrize(("plugin", "drivers", "df", "policy"), [
    # newer TAYGAs send short packets without DF
    (Ipv4aas(), {}, {"forward": "set", "reverse": "set"}, "either"),
    (Nat46(), {}, {"forward": "reference", "reverse": "set"}, "reverse"),
    (Ipv4aas(), {"clat": "jool"}, {"forward": "set", "reverse": "reference"}, "forward"),
])  # fmt: skip
def test_df_bit_depends_on_parts(plugin, drivers, df, policy):
    oracle = adapt_oracle(plugin, **drivers)
    assert (oracle._df, oracle.header_policy.dont_fragment) == (df, policy)


def test_header_policy_of_chain_combines_parts():
    policy = adapt_oracle(Ipv4aas(), plat="vpp").header_policy
    assert policy.absent_checksum and policy.retranslated
    # only the tunnel's entry decrements the TTL: one hop fewer than with two parts
    oracle = adapt_oracle(Ipv4aas(Ipv4aasParams(variant="lw4o6")), lwaftr="snabb-lwaftr")
    assert oracle._hops == {"forward": 0, "reverse": 1}


def test_only_stateful_part_gets_required_sessions():
    intent = intents.with_requirements(make_intent(), sessions=123_457)
    clat, plat = ChainDriver({}).get_parts(intent)
    assert clat.intent.requirements.sessions == 0
    assert plat.intent.requirements.sessions == 123_457


MACHINE, OTHER_MACHINE = {"host": "198.51.100.1"}, {"host": "198.51.100.2"}


def make_chain(**parts):
    """Return a chain in which some parts have another ``(driver, ssh, options)``."""
    options = {
        name: {"driver": driver, "options": {"ssh": ssh, **more}}
        for name, (driver, ssh, more) in parts.items()
    }
    return ChainDriver({"parts": options})


def test_every_remote_part_needs_ssh_options():
    with expect_error("missing-setting", mentions="napt"):
        make_session(ChainDriver({}), make_intent("map-t"))
    in_lab = ChainDriver({"parts": {"clat": {"driver": "network-cli", "options": IOS}}})
    with expect_error("missing-setting"):
        make_lab_device(in_lab, Ipv4aas(), make_intent())
    chain = make_chain(clat=("tayga", MACHINE, {}), plat=("tayga-nftables", OTHER_MACHINE, {}))
    assert [part.device for part, _ in make_session(chain, make_intent()).parts] == ["CE", "PE"]


def test_test_address_between_chain_parts_is_rejected():
    words = ("--plugin", "dslite-aftr", "--set", "responder_ipv4=192.168.20.2")
    assert v6t("dut", "plan", "--driver", "chain", *words).status == 2


def test_parts_on_one_machine_have_separate_state_directories():
    ce = ("tayga", {**MACHINE, "netns": "ce"}, {})
    chain = make_chain(napt=("nftables", MACHINE, {}), ce=ce, br=("vpp", OTHER_MACHINE, {}))
    places = [part.driver.options.state_dir for part in chain.get_parts(make_intent("map-t"))]
    assert places == ["/run/v6t", "/run/v6t/part-ce", "/run/v6t"]
    chain = make_chain(plat=("vpp", MACHINE, {"state_dir": "/run/b"}))
    assert chain.get_parts(make_intent())[1].driver.options.state_dir == "/run/b"


def test_parts_on_one_kernel_are_rejected_before_opening():
    with expect_error("chain-conflict", hint="dut.options.parts.ce.options.ssh.netns: ce"):
        chain = make_chain(napt=("nftables", MACHINE, {}), ce=("tayga", MACHINE, {}))
        chain.get_parts(make_intent("map-t"))
    # a user-space stack does not share the kernel's, and custom commands cannot be checked
    steps = {"steps": [{"command": "true", "why": "mine", "undo": "true"}]}
    for plat in (("vpp", MACHINE, {}), ("command", MACHINE, steps)):
        make_chain(clat=("tayga", MACHINE, {}), plat=plat).get_parts(make_intent())


def test_machines_not_in_lab_are_skipped():
    labs = {"clat": "ce", "plat": "pe"}
    parts = {name: {"options": {"ssh": {"lab": lab}}} for name, lab in labs.items()}
    chain, intent = ChainDriver({"parts": parts}), make_intent()
    with expect_error("unsupported-by-tester"):
        make_session(chain, intent)

    def make_finder(*names):
        return lambda ssh: NamespaceTransport(1, ssh.lab) if ssh.lab in names else None

    for names in (("ce", "pe"), ("pe",)):
        session = make_session(chain, intent, connect=make_finder(*names))
        assert [part.name for _, part in session.parts] == list(names)
    assert make_session(chain, intent, connect=make_finder()) is None


def make_fake_chain(*failing):
    """Return a chain of three parts, and a mock of their sessions; some of its methods may fail."""
    sessions, parts = Mock(), []
    for name in ("one", "two", "three"):
        session = getattr(sessions, name)
        session.name = name
        for action in ("verify", "confirm", "rollback", "close"):
            getattr(session, action).return_value = [f"{action} of {name}"]
        parts.append((SimpleNamespace(name=name, device=name, stateful=False), session))
    error = DutError("it failed", code="command-failed")
    sessions.configure_mock(**{f"{method}.side_effect": error for method in failing})
    return ChainSession("chain", parts), sessions


def list_calls(sessions):
    return [name for name, _, _ in sessions.mock_calls]


@pytest.mark.parametrize(("action", "failing", "calls"), [
    ("commit", ["three.commit"], "one.commit two.commit three.commit two.rollback one.rollback"),
    ("rollback", ["two.rollback"], "three.rollback two.rollback one.rollback"),
    ("rollback", ["one.rollback", "three.rollback"], "three.rollback two.rollback one.rollback"),
    ("open", ["two.open"], "one.open two.open one.close"),
])  # fmt: skip
def test_failed_part_leaves_earlier_parts_unchanged(action, failing, calls):
    session, sessions = make_fake_chain(*failing)
    with expect_error("command-failed"):
        getattr(session, action)()
    assert list_calls(sessions) == calls.split()


@pytest.mark.parametrize("action", ["confirm", "flush"])
def test_partly_undone_chain_is_rejected(action, monkeypatch):
    setup = resolve_setup(plugin="siit", dut="tayga")
    configured = {"begun": 3, "steps": 3, "to_undo": 2, "finished": True}
    fields = {"timer": "", "rollback_in_s": None, "driver": "tayga", "technology": "siit"}
    session, sessions = make_fake_chain()
    for (_, part), undone in zip(session.parts, (0, 2, 0), strict=True):
        status = {**fields, "device": part.name, "configured": {**configured, "undone": undone}}
        part.read_status.return_value = status
        part.driver, part.intent = setup.driver, setup.intent
    monkeypatch.setattr(dut, "_make_session", lambda *_: session)
    with expect_error("not-configured"):
        getattr(dut, action)(setup)
    assert not any(call.endswith(action) for call in list_calls(sessions))


def test_parts_are_flushed_in_order_and_restored_in_reverse():
    session, sessions = make_fake_chain()
    session.flush()
    assert list_calls(sessions) == ["one.flush", "two.flush", "three.flush"]
    assert (session.count_sessions(), session.timeout_s) == (None, None)
    assert session.rollback() == ["rollback of three", "rollback of two", "rollback of one"]
    assert session.verify()[0] == "one: verify of one"
