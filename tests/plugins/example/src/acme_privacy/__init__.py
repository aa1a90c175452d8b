"""A mechanism, an attack, a measure and a reader for clusterscale."""
