"""What the bundle starts: cellwright, which pyproject.toml beside this file names."""

import sys

from cellwright.app.cli.entry import main

sys.exit(main())
