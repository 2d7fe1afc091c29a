"""`python -m cellwright` is `cellwright`."""

import sys

from cellwright.app.cli import main

sys.exit(main())
