"""The life of an operator: its start, its modes, its leadership, and its exit."""
