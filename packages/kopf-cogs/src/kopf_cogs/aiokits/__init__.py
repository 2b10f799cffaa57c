"""Asyncio primitives: clocks, sleeps, flags, latches, threads, and what must not be interrupted.

They know nothing of Kubernetes, nor of operators and handlers.
"""
