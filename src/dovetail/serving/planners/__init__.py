"""Where models are served, and by how much: the plans of the literature, as pure functions."""
