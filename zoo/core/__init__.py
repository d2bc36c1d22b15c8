"""The contract: what a factory is, what a fit can do, and how both are kept in files."""
