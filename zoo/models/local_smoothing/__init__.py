"""Local regressions of Fan & Zhang (2008)."""
