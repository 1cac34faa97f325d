"""What outofcore needs of Python and the operating system: files, machine code, memory, optional packages."""
