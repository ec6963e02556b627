"""Rules: what can be wrong, how it is judged, and the rules of a package.

A rule is a `Rule` in a module; the registry finds it there. Its check gets what is judged and returns findings; it
knows nothing of files, reports and other rules. CONTRIBUTING.md says how to add one.
"""
