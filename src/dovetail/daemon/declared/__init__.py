"""Jobs and studies that are declared in the world: taken on, cancelled, and told what became of them."""
