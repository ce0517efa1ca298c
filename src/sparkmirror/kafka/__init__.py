"""The only room that talks to brokers."""
