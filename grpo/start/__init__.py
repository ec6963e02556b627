"""What a new user needs first: a site file, a recipe of one's own, and the way to a trained model."""
