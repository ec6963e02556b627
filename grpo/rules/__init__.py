"""Rules over values, objects, charts and logs, in the folder of what they judge."""
