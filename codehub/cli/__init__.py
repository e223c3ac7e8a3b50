"""The commands, one file per verb. A verb is imported only when it is called."""
