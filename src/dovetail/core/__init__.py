"""The decision core: model, journal entries, state, plan and loop. Standard library only, no I/O."""
