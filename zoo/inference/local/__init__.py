"""Regressions near a place."""
