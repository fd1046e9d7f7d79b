"""The file-format axis: one folder per built-in plugin, found by entry points like anyone's."""
