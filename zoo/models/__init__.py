"""Factories, one module a paper."""
