"""Priors that PyMC does not have."""
