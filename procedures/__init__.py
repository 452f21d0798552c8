"""RFC procedures as pure code over one door, ``measure(Trial) -> TrialResult``."""
