"""Judge a sample of a run's data: what its framework, its task and its rewards read from each row.

`samples.py` reads the files, `readers.py` knows the columns, `answers.py` knows what compares the expected answers,
`amounts.py` how many rows the steps need, and `judge.py` puts them together. The programs of jobs/ import each
other by plain names; so does this package.
"""

import os
import sys

from postrender import paths

sys.path.append(os.path.join(paths.data_root(), "jobs", "rewards"))
