"""The objects of users, DovetailJob and DovetailStudy: read, told their status, and given Events."""
