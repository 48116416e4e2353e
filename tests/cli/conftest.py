"""Every module here has a daemon of its own."""

from two_users import open_folder  # noqa: F401
from typed_box import box, make_box  # noqa: F401
