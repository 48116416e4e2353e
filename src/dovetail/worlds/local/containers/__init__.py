"""Jobs in container images, by podman or docker."""
