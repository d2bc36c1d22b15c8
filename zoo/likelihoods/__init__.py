"""Likelihoods: what y may be, its density given f, its augmentation, and its predictions."""
