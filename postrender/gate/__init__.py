"""Rules that every stream must satisfy before grpo-post-render outputs it; `postrender/pipeline.py` runs them."""
