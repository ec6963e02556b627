"""Read a training's output and files: the modules of jobs/runlog, which jobs use too, and the files around them.

The programs in jobs/ import each other by plain names; the modules of this package import them in the same way.
"""

import os
import sys

from postrender import paths

for _folder in ("runlog", "inspection"):
    sys.path.append(os.path.join(paths.data_root(), "jobs", _folder))
