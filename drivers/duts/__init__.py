"""Devices under test: configuration, verification, flush, telemetry and rollback."""
