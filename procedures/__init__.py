"""RFC procedures as pure code over one call, ``measure(Trial) -> TrialResult``."""
