"""Consumer groups: pure machines for both protocols, offsets, and the coordinator around them."""
