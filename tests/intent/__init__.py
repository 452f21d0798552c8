"""Tests of device intents."""
