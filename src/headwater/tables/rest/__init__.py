"""The built-in Iceberg REST catalog: one URL by which every engine finds the tables."""
