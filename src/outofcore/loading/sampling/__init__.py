"""Which samples an epoch has, in which order: plain, weighted, balanced."""
