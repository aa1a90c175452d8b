"""The analyses of a cube, each a plan, its science, and one kind of the spine."""
