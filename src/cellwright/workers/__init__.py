"""Work on foreign content that may take long, take much memory or crash: done in a few processes that can be killed."""
