"""The streams of objects: watched, stored, indexed, and queued as work."""
