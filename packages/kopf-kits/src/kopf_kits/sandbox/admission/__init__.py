"""Admission: the webhooks that are asked before writing."""
