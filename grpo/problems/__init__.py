"""What can go wrong: each problem is defined once, with all the evidence that shows it, and sorted by subject.

A module's name says where its problems are found: `values…`, `objects…`, `chart…`, `steps…` of a training run,
`logs…` of a run that ended, `probe…` of a cluster. Cases are in `MODULE.cases.yaml`.
"""
