"""Device intents: links, addresses and settings, written by technologies and read by device drivers."""
