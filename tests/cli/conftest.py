"""Every module here has a daemon of its own."""

from typed_box import box, make_box  # noqa: F401
