"""Max-margin models of Li, Zhu & Chen (2014)."""
