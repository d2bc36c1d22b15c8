"""Normal-inverse-Wishart hierarchies of Yu, Tresp & Schwaighofer (2005)."""
