"""Functions with a Gaussian prior as numbers: their laws, modes, evidence and draws, in several coordinates."""
