"""Exact arithmetic in small."""
