"""`python -m cellwright` is `cellwright`."""

import sys

from cellwright.app.cli.entry import main

sys.exit(main())
