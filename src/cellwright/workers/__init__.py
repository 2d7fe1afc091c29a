"""Work on foreign content may take long, need much memory or crash, so it is done in a few processes that can be killed."""
