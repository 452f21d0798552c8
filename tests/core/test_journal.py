"""The journal: truncated files are read, and changed files are detected."""

import pytest
from v6t.core.runs.journal import Journal
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

pytestmark = pytest.mark.slow


def trial(number, rate=1000.0):
    return Trial("throughput", f"t{number}", 104, 64, "forward", rate, 1.0)


def counted(received=1000):
    count = ClassCount("foreground", 1000, 1000, received)
    return TrialResult({"forward": DirectionResult({"fg": count}, 1.0)})


def written(path, count=4):
    journal = Journal(path)
    for number in range(count):
        journal.append(trial(number), counted(1000 - number))
    journal.close()
    return path.read_bytes()


def test_round_trip(tmp_path):
    written(tmp_path / "j")
    journal = Journal(tmp_path / "j")
    assert list(journal.entries) == ["t0", "t1", "t2", "t3"]
    assert journal.entries["t3"] == counted(997)


def test_truncated_journal_keeps_complete_lines(tmp_path):
    data = written(tmp_path / "j", 3)
    ends = [i + 1 for i, octet in enumerate(data) if octet == 10]
    for size in range(len(data) + 1):
        path = tmp_path / "cut"
        path.write_bytes(data[:size])
        journal = Journal(path)
        assert len(journal.entries) == sum(end <= size for end in ends)
        assert journal.torn == (size not in (0, *ends))
        journal.append(trial(99), counted())
        journal.close()
        again = Journal(path)
        assert list(again.entries)[-1] == "t99"
        assert not again.torn
        again.close()


def test_recorded_trials_are_not_measured_again(tmp_path):
    journal = Journal(tmp_path / "j")
    asked = []

    def measure(asked_trial):
        asked.append(asked_trial.key)
        return counted()

    answer = journal.with_replay(measure)
    assert answer(trial(1)) == answer(trial(1)) == counted()
    assert asked == ["t1"]
