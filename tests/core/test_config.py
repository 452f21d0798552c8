"""Run file, testbed file, preset and flags: which wins, what is refused, and where it stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.base.errors import UsageError
from v6t.core.config.bound import bind
from v6t.core.config.files import Flags, RunFile, TestbedFile
from v6t.core.config.presets import caveats, is_demonstration, procedure_of
from v6t.core.config.resolve import resolve
from v6t.core.config.settings import ProcedureSettings, ResolvedRun
from v6t.core.config.yaml_document import Document
from v6t.core.runs.plan import plan
from v6t.drivers.sim.tester import SimOptions
from v6t.plugins.map.mape_params import MapEParams
from v6t.procedures.trial_runner import SHARED_CORES

from .support import complaint, tree, v6t

DERANDOMIZED = settings(derandomize=True, database=None, deadline=None, max_examples=150)


def resolved(tmp_path, run=None, bed=None, **flags):
    """A run from texts of files; the simulated tester unless something else is said."""
    paths = []
    for name, text in (("run.yaml", run), ("bed.yaml", bed)):
        path = None
        if text is not None:
            path = tmp_path / name
            path.write_text(text)
        paths.append(path)
    return resolve(*paths, Flags(**{"plugin": "mape-br", "tester": "sim", **flags}))


# -- which wins --------------------------------------------------------------------------------


def test_defaults_are_the_quick_preset_on_the_embedded_tester():
    run = resolve(flags=Flags(plugin="mape-br"))
    assert run.preset == "quick"
    assert run.tester.kind == "embedded"
    assert run.dut.driver == "reference"
    assert run.frame_sizes == (104,)
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.benchmarks == ("throughput",)
    assert run.line_rate_bps == 10e9
    assert is_demonstration(run)


def test_the_rfc_preset_is_what_the_rfc_asks_for():
    run = resolve(flags=Flags(plugin="mape-br", preset="rfc"))
    assert run.procedure.trial_duration_s == 60
    assert run.procedure.repetitions == 20
    assert run.procedure.loss_tolerance == 0
    assert run.frame_sizes == (104, 168, 296, 552, 808, 1064, 1320, 1518)
    assert not is_demonstration(run)


def test_preset_then_file_then_flags(tmp_path):
    text = "procedure: {repetitions: 7, residual_wait_s: 3}"
    run = resolved(tmp_path, text, procedure={"repetitions": 9, "loss_tolerance": None})
    assert run.procedure.repetitions == 9
    assert run.procedure.residual_wait_s == 3
    assert run.procedure.trial_duration_s == procedure_of("quick")["trial_duration_s"]


def test_flags_win_over_every_setting_of_the_files(tmp_path):
    run = resolved(
        tmp_path,
        "plugin: nobody\nparams: {ea_len: 13, psid_offset: 4}\npreset: rfc\nmodes: [forward]\n"
        "frame_sizes: [168]\nseed: 5\nlabel: file",
        "tester: {kind: trex, options: {capacity_fps: 5, surplus: 1}}\n"
        "dut: {options: {params: {psid_offset: 1, ea_len: 12}}}",
        params={"psid_offset": "0", "fw_dport.min": "5", "fw_dport.max": "9"},
        preset="quick",
        modes=["reverse"],
        frame_sizes=[552],
        seed=0,
        label="flag",
        tester_options={"capacity_fps": "7"},
        dut_params={"psid_offset": "3"},
    )
    assert run.params == {
        **{"ea_len": 13, "psid_offset": "0"},
        "fw_dport": {"min": "5", "max": "9"},
    }
    assert (run.preset, run.modes, run.frame_sizes) == ("quick", ("reverse",), (552,))
    assert (run.seed, run.label) == (0, "flag")
    assert run.tester.kind == "sim"
    assert run.tester.options == {"capacity_fps": "7", "surplus": 1}
    assert run.dut.options["params"] == {"psid_offset": "3", "ea_len": 12}
    params = bind(run).technology.params
    assert isinstance(params, MapEParams)
    assert (params.psid_offset, params.ea_len, params.fw_dport.max) == (0, 13, 9)


@pytest.mark.parametrize("field", ["count", "validate_connections"])
def test_text_may_stand_for_a_number_or_a_truth_value(field, tmp_path):
    values = {"count": ("'12'", 12), "validate_connections": ("no", False)}
    text, expected = values[field]
    run = resolved(tmp_path, f"procedure: {{connections: {{{field}: {text}}}}}")
    assert getattr(run.procedure.connections, field) == expected


def test_values_of_flags_may_be_yaml():
    domains = "[{rule_ipv6: 2001:db8:d::/51, rule_ipv4: 198.51.100.0/24, share: 3}]"
    run = resolve(flags=Flags(plugin="mape-br", params={"domains": domains}))
    params = bind(run).technology.params
    assert isinstance(params, MapEParams)
    assert [d.share for d in params.all_domains] == [1, 3]


def test_links_of_the_testbed_reach_the_technology(tmp_path):
    bed = "links: {left: {vlan: 7, mtu: 9000, dut_mac: '02:00:00:00:09:09'}}\nline_rate: 2.5G"
    run = resolved(tmp_path, None, bed, frame_sizes=[1500])
    links = bind(run).technology.links
    assert (links.left.vlan, links.left.mtu) == (7, 9000)
    assert links.left.dut_mac == "02:00:00:00:09:09"
    assert (links.right.vlan, links.right.mtu) == (None, 1500)
    assert run.line_rate_bps == 2.5e9


def test_a_resolved_run_survives_its_file(tmp_path):
    run = resolved(tmp_path, "params: {ces: all}\nlabel: 2001-01-01", "line_rate: 1G")
    again = ResolvedRun.model_validate(json.loads(json.dumps(run.model_dump(mode="json"))))
    assert again == run
    assert again.label == "2001-01-01"


def test_caveats_name_every_departure_from_the_rfc(tmp_path):
    lab = {"lab": "true"}
    rfc = Flags(plugin="mape-br", tester="trex", tester_options=lab, preset="rfc")
    # no departure: where, and how frames are counted
    shared, told, marks = caveats(bind(resolve(flags=rfc)))
    assert shared == SHARED_CORES
    assert told.startswith("TRex tells frames apart by a trailer")
    assert marks.startswith("where nothing times frames, the trailer is a mark")
    attached = Flags(plugin="mape-br", tester="trex", preset="rfc")
    said = " ".join(caveats(bind(resolve(flags=attached))))
    assert "a server that runs already and has several data path cores counts by its ports" in said
    assert "capacity is not measured in this run" in said
    said = " ".join(caveats(bind(resolved(tmp_path, procedure={"loss_tolerance": 0.01}))))
    for word in ("SIMULATED", "DEMONSTRATION", "2 repetitions", "loss tolerance 1.0000%", "1.02"):
        assert word in said


@pytest.mark.parametrize(("tags", "told"), [(250, True), (499, True), (500, False)])
def test_fewer_tags_than_the_rfcs_are_a_departure(tmp_path, tags, told):
    latency = {"duration_s": 2.0, "first_tag_s": 0.5, "tags": tags}
    run = resolved(tmp_path, "benchmarks: [latency]", procedure={"latency": latency})
    said = " ".join(caveats(bind(run)))
    assert (
        f"latency by {tags} tagged frames, not at least 500 (RFC 8219 section 7.2)" in said
    ) == told


# -- what is refused, and where it stands ------------------------------------------------------

RUN_COMPLAINTS = {
    "": "run.yaml holds no settings",
    "text": "run.yaml holds no settings",
    "[1]": "run.yaml holds no settings",
    "a: b: c": "run.yaml:1: mapping values are not allowed here",
    "plugin: x\nplugin: y": "run.yaml:2: 'plugin' stands here a second time",
    "params:\n  n: 1\nparams:\n  n: 2": "run.yaml:3: 'params' stands here a second time",
    "plugin: [": "run.yaml:1: expected the node content",
    "plugin: x\n\tmodes: 1": "run.yaml:2: found character",
    "a: 1\n---\nb: 2": "run.yaml:2: but found another document",
    "a: 1\nb: \x07": "run.yaml:2: the character U+0007 cannot stand here",
    "a: *b": "run.yaml:1: found undefined alias",
    "paramz: 1": "run.yaml:1: unknown setting 'paramz' | did you mean 'params'?",
    "seed: 1\n? [1]\n: 2": "run.yaml:2: a list or mapping stands where a name is wanted",
    "seed: x": "run.yaml:1: seed: a whole number is wanted ('x' given)",
    "seed: .inf": "run.yaml:1: seed: a finite number is wanted (inf given)",
    "label: [1]": "run.yaml:1: label: text is wanted ([1] given) | put it in quotes",
    "preset: fast": "run.yaml:1: preset: 'quick' or 'rfc' is wanted ('fast' given)",
    "procedure: {search: binry}": "'mlrsearch' is wanted ('binry' given) | did you mean 'binary'?",
    "params: {br_address: 2001:db8::x}": "params.br_address: this is no IPv6 address ('2001:db8::x'",
    "procedure: {confirmations: -1}": "it must be at least 0 (-1 given)",
    "procedure: {loss_tolerance: 1}": "run.yaml:1: procedure.loss_tolerance: it must be below 1 (1",
    "procedure: {connections: {validate_connections: 7}}": "true or false is wanted (7 given)",
    "tester: {kind: sim}\nline_rate: 1G": "run.yaml is a testbed file | give it as --testbed",
    "modes:\n- forwards": "run.yaml:2: there is no mode 'forwards' | did you mean 'forward'?",
    "benchmarks: [thruput]": "run.yaml:1: there is no benchmark 'thruput' | did you mean 'throug",
    "frame_sizes: 104": "run.yaml:1: frame_sizes: a list is wanted (104 given) | write it in",
    "frame_sizes:\n- 104\n- 1.5": "run.yaml:3: frame_sizes.1: a whole number is wanted (1.5 given)",
    "frame_sizes:\n- 104\n- 5": "run.yaml:3: an IPv6 frame of 5 octets holds no IPv4 frame",
    "frame_sizes: [104, 104]": "run.yaml:1: a frame size is given twice",
    "procedure:\n  repetition: 1": "run.yaml:2: unknown setting 'procedure.repetition' | did you",
    "procedure:\n  repetitions: 0": "run.yaml:2: procedure.repetitions: it must be at least 1",
    "procedure: {trial_duration_s: .inf}": "run.yaml:1: procedure.trial_duration_s: a finite number",
    "params: 5": "run.yaml:1: params: names with values are wanted (5 given)",
    "params:\n  ces: 1\n  psid_ofset: 1": "run.yaml:3: unknown setting 'params.psid_ofset' | did",
    "params:\n  rule_ipv6: foo": "run.yaml:2: rule IPv6 prefix 'foo' is no IPv6 prefix",
    "params: {fw_dport: {min: 5, max: 1}}": "run.yaml:1: params.fw_dport: the smallest port 5",
    "params:": "run.yaml:1: params: names with values are wanted (nothing given)",
    "procedure: {latency: 5}": "run.yaml:1: procedure.latency: names with values are wanted",
    "modes: []": "run.yaml:1: modes is an empty list: nothing would be measured | leave it out",
    "seed: 1\nbenchmarks: []": "run.yaml:2: benchmarks is an empty list",
    "frame_sizes: []": "run.yaml:1: frame_sizes is an empty list: nothing would be measured",
    "params:\n  ces: 1\n  negative_percent: 101": "run.yaml:3: params.negative_percent: it must be at most",
    "params:\n  br_address: 12": "run.yaml:2: params.br_address: an address is wanted, not the number 12",
    "params: {server_ipv4: 3.5}": "an address is wanted, not the number 3.5 | write for example 192",
    "params: {br_address: true}": "params.br_address: an address is wanted, not true | write for",
    "params: {dut_right_ipv4: 5}": "not the number 5 | write for example 192.0.2.1/24",
    "params: {ea_len: true}": "run.yaml:1: params.ea_len: a whole number is wanted, not true",
    "params: {fw_dport: {min: true}}": "run.yaml:1: params.fw_dport.min: a whole number is wanted, not",
    "seed: true": "run.yaml:1: seed: a whole number is wanted, not true",
    "frame_sizes: [true]": "run.yaml:1: frame_sizes.0: a whole number is wanted, not true",
    "procedure:\n  adaptive: {most: true}": "run.yaml:2: procedure.adaptive.most: a number is wanted",
    "params:\n  domains:\n  - rule_ipv7: x": "run.yaml:3: unknown setting 'params.domains.0.rule",
}

BED_COMPLAINTS = {
    "dut:\n  options:\n    faults:\n      drop_every: x": "bed.yaml:4: reference option faults.drop",
    "tester:\n  options:\n    cores: 1\n    capacity_fps: -1": "bed.yaml:4: sim option capacity_fps",
    "tester: {options: {capacity_fps: true}}": "capacity_fps: a number is wanted, not true",
    "tester: sim": "bed.yaml:1: tester: names with values are wanted",
    "tester:\n  options:\n    capacty_fps: 1": "bed.yaml:3: the sim tester has no option 'capacty_fps' | did you mean 'capacity_fps'?",
    "tester: {options: {capacity_fps: null}}": "bed.yaml:1: sim option capacity_fps: a number is wanted (nothing given)",
    "dut:\n  driver: frr": "bed.yaml:2: there is no device driver 'frr' | known: reference",
    "dut: {option: 5}": "bed.yaml:1: unknown setting 'dut.option' | did you mean 'options'?",
    "dut: {options: {x: 1}}": "bed.yaml:1: the reference device has no option 'x'",
    "dut: {options: {params: 5}}": "bed.yaml:1: reference option params: names with values",
    "dut:\n  options:\n    params:\n      psid_ofset: 1": "bed.yaml:4: unknown setting 'dut.options.params.psid_ofset' | did you mean 'psid_offset'",
    "dut:\n  options:\n    params:\n      psid_offset: 17": "bed.yaml:3: psid_offset 17 is outside",
    "dut: {options: {faults: 5}}": "bed.yaml:1: reference option faults: names with values",
    "dut: {options: {faults: {drop_every: x}}}": "faults.drop_every: a whole number is wanted ('x' given)",
    "dut: {options: {faults: {drop_every: -1}}}": "faults.drop_every: it must be at least 0 (-1 given)",
    "dut: {options: {faults: {drop_every: true}}}": "faults.drop_every: a whole number is wanted, not true",
    "dut: {options: {faults: {corrupt: 1}}}": "no option 'faults.corrupt' | did you mean 'corrupt_octet'?",
    "links: {middle: {}}": "bed.yaml:1: unknown setting 'links.middle' | known: left, right",
    "links:\n  left: {vlan: 5, background: {vlan: 5}}\n  right: {vlan: 6, background: {vlan: 7}}": "bed.yaml:2: the left link needs a VLAN of its own beside that of the",
    "links:\n  left: {background: {vlan: 5}}": "bed.yaml:2: the left link needs a VLAN",
    "links:\n  left: {vlan: 4, background: {vlan: 5}}": "bed.yaml:1: only one of the links has a VLAN for the background",
    "links:\n  left: {vlan: 4, background: {vlan: 5, device: 1.2.3.4/5}}": "bed.yaml:2: links.left.background.device",
    "links:\n  left:\n    vlan: 5000": "bed.yaml:3: links.left.vlan: it must be at most 4,094",
    "links: {left: {vlan: [100, 200]}}": "links.left.vlan: one identifier is wanted, stacked tags",
    "links:\n  left:\n    vlan: true": "bed.yaml:3: links.left.vlan: a whole number is wanted, not true",
    "dut: {options: {params: {br_address: 5}}}": "bed.yaml:1: dut.options.params.br_address: an address",
    "links:\n  right:\n    tester_mac: x": "bed.yaml:3: 'x' is no MAC address",
    "links: {left: {mtu: 500}}": "bed.yaml:1: links.left.mtu: it must be at least 1,280",
    "plugin: mape-br\nseed: 1": "bed.yaml is a run file | give it without --testbed",
    "seed: 1\nline_rate: 1G": "bed.yaml:1: unknown setting 'seed'",
    "line_rate: 10": "bed.yaml:1: a line of 10 bit/s carries no frame of 104 octets",
    "line_rate: 10X": "bed.yaml:1: '10X' is not a line rate",
    "line_rate: 1e9999": "bed.yaml:1: 'inf' is not a line rate",
    "line_rate: 100bps": "bed.yaml:1: a line of 100 bit/s carries no frame of 104 octets",
}


def test_a_driver_without_vlans_for_the_background_says_so(tmp_path):
    links = "left: {vlan: 5, background: {vlan: 6}}, right: {vlan: 5, background: {vlan: 6}}"
    (tmp_path / "bed.yaml").write_text(f"dut: {{driver: openbsd-pf}}\nlinks: {{{links}}}")
    with pytest.raises(UsageError, match="the openbsd-pf driver gives the background no VLANs"):
        resolve(None, tmp_path / "bed.yaml", Flags("ipv4-router"))


@pytest.mark.parametrize("preset", ["quick", "rfc"])
@pytest.mark.parametrize("name", ["ipv4-router", "ipv6-router", "mape-br", "nat64", "siit"])
def test_sizes_that_nobody_gave_exist_on_tagged_links_too(name, preset, tmp_path):
    """The smallest frame is longer by its tag; the others are those of RFC 8219 section 5.1.1."""
    (tmp_path / "bed.yaml").write_text("links: {left: {vlan: 5}, right: {vlan: 6}}")
    plain = resolve(flags=Flags(name, preset=preset)).frame_sizes
    tagged = resolve(None, tmp_path / "bed.yaml", Flags(name, preset=preset)).frame_sizes
    known = [size for size in tagged if size != 1522]
    assert known[0] == plain[0] + 4
    assert known[1:] == list(plain[1:])


@pytest.mark.parametrize("text", RUN_COMPLAINTS, ids=repr)
def test_complaints_about_a_run_file_name_the_line(text, tmp_path):
    with pytest.raises(UsageError) as caught:
        resolved(tmp_path, text)
    said = f"{caught.value.message} | {caught.value.hint}"
    assert RUN_COMPLAINTS[text] in said


@pytest.mark.parametrize("text", BED_COMPLAINTS, ids=repr)
def test_complaints_about_a_testbed_file_name_the_line(text, tmp_path):
    with pytest.raises(UsageError) as caught:
        resolved(tmp_path, None, text)
    said = f"{caught.value.message} | {caught.value.hint}"
    assert BED_COMPLAINTS[text] in said


def test_a_plugin_or_tester_of_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(UsageError, match=r"run\.yaml:2: there is no plugin 'mapebr'"):
        resolved(tmp_path, "seed: 1\nplugin: mapebr", plugin=None)
    with pytest.raises(UsageError, match=r"bed\.yaml:2: there is no tester 'simm'"):
        resolved(tmp_path, None, "tester:\n  kind: simm", tester=None)
    with pytest.raises(UsageError, match=r"bed\.yaml:2: the trex tester has no option 'corse'"):
        resolved(tmp_path, None, "tester:\n  options: {corse: 1}", tester="trex")


def test_a_wrong_flag_is_not_blamed_on_the_file(tmp_path):
    run = "params: {ea_len: 13}\nprocedure: {repetitions: 2}\nmodes: [forward]\nframe_sizes: [168]"
    bed = "dut: {options: {params: {ea_len: 13}}}\ntester: {options: {surplus: 1}}"
    for flags in (
        {"params": {"psid_ofset": "1"}},
        {"params": {"psid_offset": "77"}},
        {"procedure": {"repetitions": 0}},
        {"modes": ["fwd"]},
        {"frame_sizes": [1]},
        {"plugin": "mape"},
        {"tester": "simm"},
        {"tester_options": {"x": "1"}},
        {"dut": "cisco"},
        {"dut_params": {"psid_offset": "77"}},
    ):
        with pytest.raises(UsageError) as caught:
            resolved(tmp_path, run, bed, **flags)
        assert "yaml" not in caught.value.message, flags


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x80", "plugin: mape-br".encode("utf-16")], ids=repr
)
def test_a_file_that_is_no_text(data, tmp_path):
    (tmp_path / "run.yaml").write_bytes(data)
    with pytest.raises(UsageError, match=r"run\.yaml is no text file"):
        Document(tmp_path / "run.yaml")


def test_a_byte_order_mark_is_no_error(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"\xef\xbb\xbfseed: 3\n")
    assert Document(tmp_path / "run.yaml").data == {"seed": 3}


@pytest.mark.parametrize(
    "text",
    ["[" * 1000, "{a: " * 1000, "a: " + "9" * 5000],
    ids=["nested lists", "nested mappings", "digits"],
)
def test_a_file_that_is_too_deep_or_too_long(text, tmp_path):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"run\.yaml(:1)?: "):
        Document(tmp_path / "run.yaml")


# -- garbage -----------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 200),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["all", "sim", "rfc", "forward", "104", "10G", "2001:db8::/32", "192.0.2.0/24", "mape-br"]
    ),
)
KNOWN = sorted(
    {
        *RunFile.model_fields,
        *TestbedFile.model_fields,
        *ProcedureSettings.model_fields,
        *MapEParams.model_fields,
        *SimOptions.model_fields,
        *("kind", "options", "driver", "params", "faults", "left", "right", "min", "max"),
        *("tester_mac", "dut_mac", "vlan", "mtu", "drop_every", "slow_ns"),
    }
    - {"plugin"}
)
KEYS = st.one_of(st.sampled_from(KNOWN), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def section(names, **inner):
    """A mapping with one or two of the names: with more, the first wrong one hides the others."""

    def filled(chosen):
        return st.fixed_dictionaries({name: inner.get(name, VALUES) for name in chosen})

    known = sorted(set(names) - {"plugin"})
    return st.lists(st.sampled_from(known), max_size=2, unique=True).flatmap(filled)


RUNS = section(
    RunFile.model_fields,
    params=section(MapEParams.model_fields) | VALUES,
    procedure=section(ProcedureSettings.model_fields) | VALUES,
)
BEDS = section(
    TestbedFile.model_fields,
    tester=st.fixed_dictionaries({"options": section(SimOptions.model_fields)}) | VALUES,
    dut=st.fixed_dictionaries(
        {"options": st.fixed_dictionaries({"params": section(MapEParams.model_fields)}) | VALUES}
    ),
    links=st.fixed_dictionaries({}, optional={"left": VALUES, "right": VALUES}) | VALUES,
)


def only_usage_errors(path, run, bed):
    """Whatever the values are: a run that can be planned, or a sentence."""
    (path / "run.yaml").write_text(json.dumps(run))
    (path / "bed.yaml").write_text(json.dumps(bed))
    flags = Flags(plugin="mape-br", tester="sim")
    try:
        return plan(bind(resolve(path / "run.yaml", path / "bed.yaml", flags))).run
    except UsageError as exc:
        assert exc.message
        return None


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("garbage")


@pytest.mark.slow
@DERANDOMIZED
@given(RUNS, BEDS)
def test_garbage_of_the_right_shape(scratch, run, bed):
    found = only_usage_errors(scratch, run, bed)
    if found is not None:
        assert found.plugin == "mape-br"
        assert found.frame_sizes


@pytest.mark.slow
@DERANDOMIZED
@given(VALUES, VALUES)
def test_garbage_of_any_shape(scratch, run, bed):
    found = only_usage_errors(scratch, run, bed)
    assert found is None or isinstance(found, ResolvedRun)


YAML_TEXT = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab:-?[]{}&*!|>'\"%@`#,\n \t<~01.", max_size=60),
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            ["plugin: ", "params:", "mape-br", "\n", "  ", "- ", "{", "}", "&a ", "*a", "<<: ",
             "!!set", "!!int ", "!!binary ", "!!timestamp ", "? ", ": ", "---\n", "%YAML 1.1\n",
             "frame_sizes: ", "[104, ", "]", "0x", "1_000", ".nan", "|\n", "'", '"', "\x00", "ö"]
        ),
        max_size=12,
    ).map("".join),
)  # fmt: skip


@pytest.mark.slow
@settings(DERANDOMIZED, max_examples=250)
@given(YAML_TEXT, YAML_TEXT)
def test_garbage_that_is_hardly_yaml(tmp_path_factory, run, bed):
    home = tmp_path_factory.mktemp("hardly")
    for name, text in (("run.yaml", run), ("bed.yaml", bed)):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        (home / name).write_bytes(data)
    before = tree(home)
    arguments = ["run", home / "run.yaml", "--testbed", home / "bed.yaml", "--plugin", "mape-br"]
    done = v6t(*arguments, "--tester", "sim", "--dry-run")
    if done.status:
        complaint(done)
    else:
        assert "trials" in done.out
    assert tree(home) == before


NAMES = st.one_of(st.sampled_from([*KNOWN, "fw_dport.min", "domains.0"]), st.text(max_size=6))
ASSIGNMENT = st.tuples(NAMES, st.sampled_from(["=", "=", "=", ""]), st.text(max_size=10))


@DERANDOMIZED
@given(st.lists(ASSIGNMENT.map("".join), max_size=3), st.lists(ASSIGNMENT.map("".join), max_size=2))
def test_garbage_of_flags(params, options):
    arguments = [f"--set={text}" for text in params] + [f"--set-tester={t}" for t in options]
    done = v6t("run", "--plugin", "mape-br", "--tester", "sim", "--dry-run", *arguments)
    if done.status:
        complaint(done)
    else:
        assert "trials" in done.out
