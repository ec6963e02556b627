"""Rules: what can be wrong with values, objects or a chart.

A rule is a `Rule` in a module below the folder of its target; the registry finds it there. Its check gets what the
target is and returns findings; it knows nothing of files, reports and other rules. CONTRIBUTING.md says how to add one.
"""
