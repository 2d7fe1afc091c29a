"""Vocabulary and pure logic. No I/O; imports nothing of ours."""
