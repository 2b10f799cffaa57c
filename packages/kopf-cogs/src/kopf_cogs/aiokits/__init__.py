"""Asyncio primitives: clocks, sleeps, flags, latches, threads, and uninterruptible calls.

They know nothing of Kubernetes, nor of operators and handlers.
"""
