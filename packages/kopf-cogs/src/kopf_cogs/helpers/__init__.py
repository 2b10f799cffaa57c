"""Small things of no particular layer: versions, host names, JSON parsers."""
