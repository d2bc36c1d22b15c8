"""Varying-coefficient Gaussian processes of Bussas et al. (2015)."""
