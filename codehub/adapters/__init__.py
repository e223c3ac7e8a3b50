"""One outside system per file or folder; foreign errors are translated here."""
