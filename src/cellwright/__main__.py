"""`python -m cellwright` is `cellwright`."""

import sys

from cellwright.app.entry import main

sys.exit(main())
