"""Scale-up, mixture models and degradation."""

import pytest
from v6t.analysis import scaling


def test_scale_up_over_cores_is_a_share_of_linear_scaling():
    result = scaling.compute_scaling({1: 1000.0, 2: 1600.0, 4: 2400.0}, per_core=True)
    assert result == {1: 1.0, 2: pytest.approx(0.8), 4: pytest.approx(0.6)}
    # published in the dual-DUT paper, whose formula omits P(1)
    result = scaling.compute_scaling({1: 883_553, 2: 1_540_032}, per_core=True)
    assert result[2] == pytest.approx(0.871, abs=5e-4)


def test_scale_up_over_connections_is_a_share_of_the_first_rate():
    assert scaling.compute_scaling({10**6: 500.0, 2 * 10**6: 400.0}) == {10**6: 1.0, 2 * 10**6: 0.8}


@pytest.mark.parametrize("values", [{}, {2: 5.0}, {1: 0.0, 2: 1.0}])
def test_scale_up_needs_its_base(values):
    with pytest.raises(ValueError, match="scale-up needs"):
        scaling.compute_scaling(values, per_core=True)


def test_mixture_models_give_known_rates():
    assert scaling.predict_minimum(300.0, 900.0, 0.25) == pytest.approx(1200.0)
    assert scaling.predict_harmonic(300.0, 900.0, 0.25) == pytest.approx(600.0)
    assert scaling.predict_minimum(300.0, 900.0, 0.0) == 900.0
    assert scaling.predict_minimum(300.0, 900.0, 1.0) == 300.0
    assert scaling.compute_residual(660.0, 600.0) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        scaling.predict_minimum(300.0, 900.0, 1.5)


def test_degradation_is_positive_for_worse_values():
    assert scaling.compute_degradation(80.0, 100.0) == 20.0
    assert scaling.compute_degradation(120.0, 100.0, more_is_better=False) == 20.0
    assert scaling.compute_degradation(80.0, 100.0, more_is_better=False) == -20.0
    # a minimum IPDV is worse if it is farther from 0
    assert scaling.compute_degradation(-20.0, -10.0, more_is_better=False) == 100.0
    assert scaling.compute_degradation(-5.0, -10.0, more_is_better=False) == -50.0


@pytest.mark.parametrize(
    ("value", "base", "more_is_better"), [(80.0, 0.0, True), (80.0, -1.0, True), (-5.0, 0.0, False)]
)
def test_degradation_needs_a_positive_base(value, base, more_is_better):
    with pytest.raises(ValueError, match="positive"):
        scaling.compute_degradation(value, base, more_is_better=more_is_better)


@pytest.mark.parametrize(
    ("value", "cores"),
    [(1, 1), (16, 16), ("1", 1), ("1-4", 4), ("1-3,5", 4), ("2,4,6", 3)]
    + [(value, None) for value in (0, None, True, "", "all", "1-", "-4", "1,,2", 2.5)],
)
def test_cores_are_counted_in_numbers_and_lists(value, cores):
    assert scaling.count_cores(value) == cores
