"""Shipping: how an operator gets to a cluster, as plain manifests, with kustomize, or as a chart.

The only source is the chart in this folder. Users with Helm render it by Helm. For other
users, :mod:`.rendering` renders it, as far as our own chart needs that.
"""
