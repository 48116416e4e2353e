"""Language models: continuous batching with paged KV memory and adapters."""
