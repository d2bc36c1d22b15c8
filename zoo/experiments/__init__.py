"""Reproductions of the papers' experiments; the command ``zoo reproduce`` runs them."""
