"""Scratch notebooks: durable pads of cells in any language, validated when asked, and found again."""
