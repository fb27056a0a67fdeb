"""Oxia's messages, generated; ``oxia.proto`` says from what."""
