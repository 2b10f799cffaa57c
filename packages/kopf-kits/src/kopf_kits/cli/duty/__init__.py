"""The commands for people on duty: they show the states of objects, and free the stuck ones.

All state is on the objects, so no operator is needed for them, only a kubeconfig.
"""
