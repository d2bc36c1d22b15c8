"""Factories, one room per paper."""
