"""Benchmarks side by side with Apache Kafka on the same machine, with the same clients."""
