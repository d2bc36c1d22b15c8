"""Gibbs samplers, and the moves and draws that they are made of."""
