"""The bench: CPU, memory, and latency of operators, measured from outside."""
