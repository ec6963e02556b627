"""What a new user needs first: a site file, their own recipe, and the steps to a trained model."""
