"""Rules that every stream must pass before grpo-post-render passes it on; `postrender/pipeline.py` asks them."""
