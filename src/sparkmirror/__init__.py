"""sparkmirror: replicates topics between Kafka clusters, as batches, on Spark."""
