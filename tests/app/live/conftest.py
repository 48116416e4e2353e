"""Every module here has a daemon of its own."""

from typed_box import box  # noqa: F401
