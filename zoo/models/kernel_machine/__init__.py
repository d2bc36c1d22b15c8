"""Multi-task kernels of Evgeniou, Micchelli & Pontil (2005)."""
