"""Choices that are the user's: model, data, reward, prompt, image, machine."""
