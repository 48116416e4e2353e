"""Where the jobs of a daemon are pods: a Kubernetes cluster, through its API server."""
