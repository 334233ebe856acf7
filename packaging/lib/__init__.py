"""What `packaging/build` consists of: one file for each kind of package."""
