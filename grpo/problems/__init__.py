"""What can go wrong: one problem each, with all that shows it, sorted by subject.

The name of a module says what its problems are found in: `values…`, `objects…`, `chart…`, `steps…` of a training,
`logs…` of a run that ended, `probe…` of a cluster. Cases are in `MODULE.cases.yaml`.
"""
