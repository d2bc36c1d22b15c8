"""EM of normal populations of linear models."""
