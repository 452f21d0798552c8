"""Packets: headers, checksums, trailers and header policies, for one frame or an array of frames."""
