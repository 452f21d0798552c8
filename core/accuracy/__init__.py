"""The tester's own error: measured against devices of known behaviour, kept, and quoted."""
