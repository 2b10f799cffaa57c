"""The process: it runs one operator, or a fleet of them, until their end."""
