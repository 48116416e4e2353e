"""The pages that a daemon serves: their frame, scripts and styles. What they show they ask of `/v1`."""
