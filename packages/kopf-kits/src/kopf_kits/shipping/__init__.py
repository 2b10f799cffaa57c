"""Shipping: how an operator gets to a cluster, as plain manifests, with kustomize, or as a chart.

The only source is the chart in this folder. Helm renders it in clusters of those who have Helm;
for the others, :mod:`.rendering` does, as far as our own chart needs it.
"""
