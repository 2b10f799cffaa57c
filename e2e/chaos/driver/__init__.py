"""Operators as processes: started, signalled, and judged from outside."""
