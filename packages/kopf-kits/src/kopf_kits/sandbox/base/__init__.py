"""The base of all other parts: JSON and failures."""
