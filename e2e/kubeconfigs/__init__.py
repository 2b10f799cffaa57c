"""Kubeconfigs, good and bad: what we do with them, and what kubectl does."""
