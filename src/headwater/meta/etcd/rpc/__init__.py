"""etcd's messages, generated; ``etcd.proto`` says from what."""
