"""Models: names, revisions, shapes, LoRA."""
