"""verl's module, as the launcher starts it."""

import sys

from standin import main

if __name__ == "__main__":
    sys.exit(main())
