"""Running Markov chains: seeds, threads, progress, checkpoints."""
