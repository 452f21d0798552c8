"""Devices with a command line of their own and no shell: lines are typed, prompts are waited for."""
