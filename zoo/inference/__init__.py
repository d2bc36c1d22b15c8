"""Engines that draw from posteriors and know no model: matrices, weights and chains go in and out."""
