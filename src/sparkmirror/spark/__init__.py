"""The only room that imports pyspark: sessions and jobs, no decisions."""
