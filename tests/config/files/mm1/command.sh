kafka-mirror-maker.sh --consumer.config consumer.properties --producer.config producer.properties \
  --num.streams 3 --whitelist "orders,shop.*" --offset.commit.interval.ms 10000 --abort.on.send.failure false
