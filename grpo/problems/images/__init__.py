"""Container images and the versions in them."""
