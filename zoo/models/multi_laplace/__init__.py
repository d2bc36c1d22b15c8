"""Joint feature selection of Srijith & Shevade (2014)."""
