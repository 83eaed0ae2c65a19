"""The KV cache as the engine plans it: pages of each layer, groups of layers, blocks of a rank, the printed pool."""
