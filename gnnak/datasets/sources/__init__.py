"""Download published archives and read them without running code from them."""
