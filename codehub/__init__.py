"""CodeHub keeps development workspaces as a team's YAML declares them."""

__version__ = "0.1.0"
