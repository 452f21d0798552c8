"""The preset ``rfc``: every value and the clause that it follows."""

from v6t.core.config.resolve import resolve
from v6t.core.config.settings import is_demonstration

CHOSEN = "no clause: v6t's own choice"
SETTINGS = {
    "trial_duration_s": (60.0, "RFC 2544 section 24"),
    "final_duration_s": (None, "RFC 2544 section 24: every trial of the search is a full one"),
    "residual_wait_s": (2.0, "RFC 2544 section 23 d"),
    "pause_s": (10.0, "RFC 2544 section 23 e: 5 s at least; 10 s in the papers"),
    "repetitions": (20, "RFC 8219 sections 7.2, 7.3.1, 7.3.2"),
    "adaptive": (None, "RFC 8219 sections 7.2, 7.3.1, 7.3.2: a fixed number"),
    "resolution_fps": (1000.0, "TP-02"),
    "resolution_ratio": (0.001, f"{CHOSEN}; not used where resolution_fps is"),
    "loss_tolerance": (0.0, "RFC 2544 section 26.1"),
    "sending_time_tolerance": (1.00001, "GEN-23"),
    "invalid_retries": (2, "GEN-23"),
    "confirmations": (0, "TP-04"),
    "selftest_margin": (0.1, "SELF-02"),
    "selftest": ("cached", "SELF-03"),
    "means": (False, "GEN-20"),
    "search": ("binary", "TP-02"),
    "rate_from": ("median", "RFC 8219 section 7.2: the throughput, which is the median of 20"),
    "connections.count": (4_000_000, "ST-04"),
    "connections.entries": (None, "ST-03: all of them"),
    "connections.reading": ("pseudorandom", "ST-05"),
    "connections.wait_ms": (500.0, "ST-03"),
    "connections.gap_ms": (0.0, "ST-03"),
    "connections.alpha": (1.0, "ST-07"),
    "connections.validate_connections": (True, "RFC 9693 section 4.6"),
    "connections.rate_cps": (None, "ST-09: a share of the rate that was found"),
    "connections.rate_share": (0.5, "ST-09"),
    "connections.upper_cps": (None, "ST-06: the medium's or the tester's"),
    "connections.resolution_cps": (1000.0, "ST-06"),
    "connections.retakes": (3, "ST-08"),
    "connections.keep": (False, "ST-02: every trial makes its own"),
    "frame_timeout.deadline_ms": (None, "TP-06: off"),
    "frame_loss.step": (0.1, "RFC 2544 section 26.3"),
    "frame_loss.rates_fps": (None, "RFC 2544 section 26.3: all rates from the maximum down"),
    "frame_loss.duration_s": (None, "RFC 2544 section 24: as trial_duration_s"),
    "frame_loss.repetitions": (None, "GEN-17: as repetitions"),
    "back_to_back.repetitions": (50, "RFC 2544 section 26.4, RFC 9004 section 6.3"),
    "back_to_back.longest_s": (2.0, "RFC 9004 section 6.2"),
    "back_to_back.resolution_frames": (64, "RFC 9004 section 6.2: the step, which is reported"),
    "back_to_back.residual_wait_s": (2.0, "RFC 9004 section 6.2, third component"),
    "back_to_back.verifications": (1, "RFC 9004 section 6.2: with loss verification"),
    "back_to_back.at": ("media", "RFC 9004 section 6.2: the smallest gap"),
    "back_to_back.sending_time_tolerance": (None, "GEN-23: as for all trials"),
    "resolution.cached": ([0], "RFC 8219 section 9.2: the required combination alone"),
    "resolution.own_aaaa": ([0], "RFC 8219 section 9.2: the required combination alone"),
    "resolution.timeout_s": (1.0, "RFC 8219 section 9.2"),
    "resolution.delta": (0.1, "RFC 8219 section 9.2.1"),
    "resolution.cached_names": (1000, f"{CHOSEN}; RFC 8219 section 9.2 says late and early enough"),
    "resolution.resolution_qps": (None, f"{CHOSEN}: resolution_ratio of the upper bound"),
    "latency.rate_fps": (None, "RFC 8219 section 7.2: the throughput"),
    "latency.duration_s": (120.0, "RFC 8219 section 7.2"),
    "latency.tags": (50_000, "RFC 8219 section 7.2: 500 at least; LAT-04"),
    "latency.first_tag_s": (60.0, "RFC 8219 section 7.2"),
    "latency.rate_bps": (None, "RFC 8219 section 7.2: the throughput"),
    "delay_variation.rate_bps": (None, "RFC 8219 sections 7.3.1, 7.3.2: the throughput"),
    "delay_variation.rate_fps": (None, "RFC 8219 sections 7.3.1, 7.3.2: the throughput"),
    "delay_variation.duration_s": (60.0, "RFC 8219 sections 7.3.1, 7.3.2"),
    "system_recovery.overload_s": (60.0, "RFC 2544 section 26.5"),
    "system_recovery.afterwards_s": (60.0, CHOSEN),
    "system_recovery.repetitions": (None, "GEN-17: as repetitions"),
    "reset.hook": ("software-reset", "RFC 6201 section 4.2"),
    "reset.duration_s": (120.0, CHOSEN),
    "reset.at_s": (20.0, CHOSEN),
    "reset.repetitions": (5, "RFC 6201 section 1.4: several, averaged"),
    "teardown.repetitions": (None, "GEN-17: as repetitions"),
    "capacity.first": (1_000_000, "ST-12: C0"),
    "capacity.most": (None, "ST-12: as many as there are four-tuples"),
    "capacity.beta": (0.1, "ST-12"),
    "capacity.gamma": (0.5, "ST-12"),
    "capacity.error": (1, "ST-12: E"),
    "capacity.resolution_cps": (None, "ST-06: as connections.resolution_cps"),
    "tcp.object_octets": (64, f"{CHOSEN}; RFC 3511 section 5.2.2.2 has it reported"),
    "tcp.timeout_s": (1.0, f"{CHOSEN}: RFC 6298's first time-out"),
    "tcp.retransmissions": (0, f"{CHOSEN}: no second try makes a rate look higher"),
    "tcp.closing": ("rst", "RFC 3511 sections 5.2.3, 5.3.3"),
    "tcp.rate_cps": (None, "RFC 3511 section 5.2.2.1: below the rate that was found"),
    "tcp.rate_share": (0.5, "RFC 3511 section 5.2.2.1: below the rate that was found"),
    "tcp_capacity.first": (1_000_000, f"{CHOSEN}: as capacity.first"),
    "tcp_capacity.most": (None, f"{CHOSEN}: as many as there are four-tuples"),
    "tcp_capacity.error": (1, f"{CHOSEN}: as capacity.error"),
    "tcp_capacity.beyond": (0.1, CHOSEN),
    "tcp_capacity.aging_s": (150.0, f"{CHOSEN}: more than the 120 s that Linux waits"),
    "mlrsearch.goals": (
        [
            {
                **{"name": name, "loss_ratio": loss, "exceed_ratio": 0.0, "width": 0.005},
                **{"final_trial_s": None, "initial_trial_s": None, "duration_sum_s": None},
                **{"preceding_targets": 2, "expansion_coefficient": 2},
            }
            for name, loss in (("NDR", 0.0), ("PDR", 0.005))
        ],
        "TP-07; RFC 9971 section 4.10.2",
    ),
    "mlrsearch.min_load_fps": (None, CHOSEN),
    "watch_device": (False, f"{CHOSEN}: nothing but the test gives the device work"),
    "read_device": (True, f"{CHOSEN}: between trials, when nothing is measured"),
    "reconfiguration.share": (0.9, "no RFC: below the throughput"),
    "reconfiguration.rate_fps": (None, "the measured throughput"),
    "reconfiguration.duration_s": (20.0, "no RFC"),
    "reconfiguration.at_s": (5.0, "no RFC"),
    "reconfiguration.repetitions": (5, "no RFC"),
    "soak.duration_s": (7200.0, "no RFC: hours, two of them"),
    "soak.stretch_s": (60.0, "no RFC: RFC 2544 section 24 has trials of 60 s"),
    "soak.rate_fps": (None, "the measured throughput"),
    "soak.share": (0.9, "no RFC: below the throughput"),
    "critical_load.target": (1e-7, "draft-vpolak-bmwg-plrsearch-03: Target Loss Ratio"),
    "critical_load.search_s": (1800.0, "FD.io CSIT: 30 minutes"),
    "critical_load.first_s": (5.1, "draft-vpolak-bmwg-plrsearch-03: Measurement Delay"),
    "critical_load.longer_s": (0.1, "draft-vpolak-bmwg-plrsearch-03: Measurement Delay"),
    "flows.counts": ([1, 10, 100], "RFC 8219 section 10.2.1: n is the user's"),
    "flows.starts": (["together", "successive"], "RFC 8219 sections 10.2.1, 10.2.2"),
    "flows.interval_s": (1.0, "RFC 8219 section 10.2.2: t is the user's"),
    "flows.quarters": (False, "RFC 8219 section 10.2.2: they MAY be measured"),
    "flows.also_starts": (["together", "successive"], "RFC 8219 sections 10.2.1, 10.2.2"),
    "flows.also": ([], "RFC 8219 section 10.2.1: the user names those beside the throughput"),
}


def flat(values, above=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def test_every_value_of_the_rfc_preset_has_its_clause():
    """A new setting needs a line above: its value in the preset, and which clause it follows."""
    run = resolve(plugin="mape-br", preset="rfc")
    found = dict(flat(run.model_dump(mode="json")["procedure"]))
    assert found == {name: value for name, (value, _) in SETTINGS.items()}
    assert all(clause for _, clause in SETTINGS.values())
    # RFC 8219, section 5.3: both directions at once, and each alone
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.frame_sizes == (104, 168, 296, 552, 808, 1064, 1320, 1518)
    assert not is_demonstration(run)


def test_bursts_of_30_s_can_be_searched():
    """RFC 9004 section 6.2: the longest burst MUST be configurable to as much."""
    assert (
        resolve(
            plugin="mape-br", preset="rfc", procedure={"back_to_back": {"longest_s": 30.0}}
        ).procedure.back_to_back.longest_s
        == 30.0
    )
