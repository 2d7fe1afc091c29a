"""Serving over HTTP: who may enter, how much, how often."""
