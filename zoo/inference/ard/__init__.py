"""Gaussian processes with ARD parameters, integrated out: evidence, mode, conditional laws."""
