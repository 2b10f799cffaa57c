"""Simulated lives of operators: real code in virtual time, with every fault by a seed."""

from .incarnations import Incarnation, incarnation_var
from .loop import Standstill, VirtualLoop
from .network import Network, Weather
from .timing import VirtualClock, VirtualExecutor, VirtualThreads
from .world import Process, World, live

__all__ = [
    "Incarnation",
    "Network",
    "Process",
    "Standstill",
    "VirtualClock",
    "VirtualExecutor",
    "VirtualLoop",
    "VirtualThreads",
    "Weather",
    "World",
    "incarnation_var",
    "live",
]
