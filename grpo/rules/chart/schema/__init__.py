"""Rules over a chart's values.schema.json."""
