"""What a look at the files tells about a project."""
