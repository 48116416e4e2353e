"""Every policy on every public trace at hand, and on generated loads: one table to quote."""
