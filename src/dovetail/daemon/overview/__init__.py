"""The live state as many people look at it at once: read once, told to all of them."""
