"""What every room uses and no model needs to know: checks, digests, files, seeds, memory."""
