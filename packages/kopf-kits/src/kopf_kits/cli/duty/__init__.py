"""The commands for people on duty: what is going on with objects, and how to free the stuck ones.

All state is on the objects, so no operator is needed for them, only a kubeconfig.
"""
