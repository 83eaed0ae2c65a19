"""A model as the memory ledger needs it: what each layer weighs and keeps, from config.json or the checkpoint."""
