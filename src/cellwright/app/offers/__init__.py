"""What a caller is offered: tools and prompts."""
