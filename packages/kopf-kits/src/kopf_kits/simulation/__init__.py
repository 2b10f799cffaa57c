"""Simulated lives of operators: real code in virtual time, with every fault by a seed."""

from .incarnations import Incarnation, incarnation_var
from .loop import Standstill, VirtualLoop
from .network import Network, Weather
from .threads import VirtualThreads
from .timing import VirtualClock
from .world import Process, World, live

__all__ = [
    "Incarnation",
    "Network",
    "Process",
    "Standstill",
    "VirtualClock",
    "VirtualLoop",
    "VirtualThreads",
    "Weather",
    "World",
    "incarnation_var",
    "live",
]
