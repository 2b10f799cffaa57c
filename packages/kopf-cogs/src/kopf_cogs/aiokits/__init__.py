"""
Asyncio primitives: clocks, sleeps, guarded tasks, toggles, flags.

They know nothing of Kubernetes, nor of operators and handlers.
"""
