"""What people see of commands: lines and errors on a terminal, and tables."""
