"""sparkmirror: replicates topics between Kafka clusters, as batches, on Spark."""

__version__ = "0.1.0"
